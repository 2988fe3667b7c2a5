"""What anybody writes, the doctor bears: mutated files, one by one, in a process whose memory is measured.

python -m prove.mutants COUNT
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from cyberos.core.episode import log
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from cyberos.doctor.examination import examine
from prove.table import folder, promise, share
from support import episode, fact, write_raw

_ROOT = Path(__file__).parents[2]
ODD = ["---", "\n---\n", "- ", ": ", " #", "&a", "*a", "!!python/object:os.system", "|", ">", "%YAML", "? ", "null", "~",
       "yes", "1e-05", "1e400", "0x1F", "0o7", "12:30:45", "2026-11-30", "9007199254740991", "\\", "\\u0041", "\\x41", '"', "'",
       "{", "}", "[", "]", "{{x}}", "\t", "\n", "\n\n", "\u2028", "\u2029", "\x85", "\xa0", "\ufeff", "\ufffe", "\uffff", "\x7f", "\u200b", "\u202e",
       "\U000e0041", "\U0001f993", "e\u0301", "=======", "<<<<<<< ", "\u0000"]  # fmt: skip
BOMBS = ["[" * 5_000, "{a: " * 3_000, "- " * 5_000, "&a [" * 200, "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", "*a", "<<: *x", "9" * 6_000,
         "1e999999999", "-" * 9_000, "NaN", "!!binary x", "!!python/name:os.system", "? " * 400, "|\n" * 300, "'" * 999, '"' * 999, "\\u" * 400,
         "{}" * 300, '{"a":' * 900, "\x00", "\x1b[31m", "\r\n", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "\ufeff", "a" * 70_000, "\n" * 40_000,
         "<<<<<<< x\n=======\n>>>>>>> y\n", "ghp_", "-----BEGIN " + "PRIVATE KEY-----", "://a:b@", "ey" + "J" * 900, "0" * 900 + ":" * 900]  # fmt: skip


def seeds() -> list[bytes]:
    legacy = "---\nkind: facts\ntags: [a, b]\nwhen: 2026-11-30\nn: {a: [1, 2]}\n---\n\ntext\n"
    made = episode("größe \U0001f993", notes="n\n---\nm", tags=["a", "b"], quality_score=0.25)
    return [legacy.encode(), fact("we deploy on Tuesdays")[1].encode(), made.render().encode()]


def mutated(rng: random.Random, blob: bytes) -> bytes:
    """Change a file at one to six places: bytes, pieces of itself, lines, and what parsers choke on."""
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(blob) + 1)
        end = min(len(blob), place + rng.choice([1, 1, 4, 40, 400]))
        piece = rng.choice(BOMBS + ODD).encode("utf-8", "surrogatepass")
        start = rng.randrange(len(blob) + 1)
        blob = rng.choice(
            [
                blob[:place] + rng.randbytes(end - place) + blob[end:],
                blob[:place] + blob[end:],
                blob[:place] + piece + blob[place:],
                blob[:place] + piece + blob[end:],
                blob[:place] + blob[start : start + 60] + blob[place:],
                blob[:place],
                blob.replace(rng.choice([b"\n", b'"', b":", b"---", b","]), piece[:20], rng.choice([1, 1, -1])),
            ]
        )[: 300 << 10]
    return blob


def torment(count: int) -> dict:
    """Let the doctor look at so many mutated files, one by one; give what came of it."""
    rng = random.Random(20261201)
    crashed, slowest, found = [], 0.0, 0
    with folder() as top:
        root = init(top / "vault").root
        writer = Writer(root, durability="none")
        log(writer, episode("an honest one"))
        places = [fact("x")[0], "memories/episodes/d4/12/d4127a3b-1f2c3d.md"]
        for number in range(count):
            path = places[number % 2]
            write_raw(root / path, mutated(rng, rng.choice(seeds())))
            began = time.process_time()
            report = examine(root, [path])
            slowest = max(slowest, time.process_time() - began)
            found += report.count("error") > 0
            crashed += [one.message for one in report.findings if one.rule == "doctor-check-crashed"]
            (root / path).unlink()
    return {"crashed": crashed[:3], "slowest_s": slowest, "mib": most_mib(), "found": found}


def most_mib() -> float:
    """Give the most memory that this process ever held, in MiB; 0 where the system does not tell (not Linux)."""
    status = Path("/proc/self/status")  # rusage would count what the process held that started this one
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


@promise("20,000 mutated files through the doctor: no traceback, none over a second of CPU, under 200 MB")
def mutants(scale: float) -> tuple[str, bool]:
    count = share(20_000, scale)
    seen = os.environ | {"PYTHONPATH": f"{_ROOT}:{_ROOT / 'tests'}"}
    command = [sys.executable, "-m", "prove.mutants", str(count)]
    done = subprocess.run(command, env=seen, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    figure = f"{count:,} files, {told['found']:,} with errors; {len(told['crashed'])} crashes, slowest {told['slowest_s']:.2f} s, {told['mib']:.0f} MB"
    return figure, not told["crashed"] and told["slowest_s"] < 1 and told["mib"] < 200


if __name__ == "__main__":
    print(json.dumps(torment(int(sys.argv[1]))))
