"""The public tamper suite for agent memories, `agent-memory-integrity` on PyPI, over our vault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from prove.table import Skipped, folder, promise
from prove.tools import packages

_ROOT = Path(__file__).parents[2]
_RUN = """
import json, os, sys
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT as attacks
from prove.agmi_adapter import CyberosAdapter
made = [attack().run(CyberosAdapter()) for attack in attacks]
print(json.dumps([[one.attack, one.status, one.guard or one.error or one.detail] for one in made]))
"""


@promise("agent-memory-integrity, T1 to T9: every edit of a store at rest is reported")
def tamper_suite(scale: float) -> tuple[str, bool]:
    where = packages()
    if not (Path(where) / "agmi").is_dir():
        raise Skipped("agent-memory-integrity is not in CYBEROS_PROVE_TOOLS")
    with folder() as home:
        seen = os.environ | {"PYTHONPATH": f"{_ROOT}:{_ROOT / 'tests'}:{where}", "TMPDIR": str(home)}
        done = subprocess.run([sys.executable, "-c", _RUN], env=seen, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    for name, status, detail in results:
        print(f"    {name}: {status}: {detail}", file=sys.stderr)
    reported = [name for name, status, _ in results if status == "safe"]
    alone = [f"T{place}" for place, (_, _, detail) in enumerate(results, 1) if "(checkpoint:" in detail]
    return f"{len(reported)} of {len(results)} reported; {', '.join(alone) or 'none'} by the checkpoint alone", len(
        reported
    ) == 9
