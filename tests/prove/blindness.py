"""The doctor can fail: each of its checks is broken in turn, and the vault that shows the check catches it.

`tests/mutation.py` does it (`make mutation`); the sample only takes rules away from it whole.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from cyberos.core import contract
from prove.table import promise

_MUTATION = Path(__file__).parents[1] / "mutation.py"
WITHOUT = {"doctor-check-crashed", "anchor-blind"}  # no vault in a folder can show them; tests do, in the full run


@promise("a doctor with any of its checks broken is caught")
def mutation(scale: float) -> tuple[str, bool]:
    some = [rule for rule in contract.rules() if rule not in WITHOUT][::16]
    asked = [] if scale == 1 else [*(f"drop {rule}" for rule in some), "fixtures"]
    done = subprocess.run([sys.executable, str(_MUTATION), *asked], capture_output=True, text=True, check=False)
    found = re.search(r"(\d+) of (\d+) mutants killed.*", done.stdout)
    if found is None:
        raise AssertionError((done.stdout + done.stderr)[-2_000:])
    return found[0], done.returncode == 0
