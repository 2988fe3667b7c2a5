"""Look for credentials in texts of 2 KB, clean and planted, beside detect-secrets where CYBEROS_PROVE_TOOLS has it.

PYTHONPATH=tests python bench/credentials.py [--rows N]     CYBEROS_BENCH_DATA names a folder with real episodes

Times are CPU milliseconds of one text. detect-secrets reads files, so it is given one file for each text.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

from core.test_secrets import made
from cyberos.core.secrets import KINDS, scan

SIZE = 2_048
_BESIDE = """
import json, sys, time
from detect_secrets import SecretsCollection
from detect_secrets.settings import default_settings
import contextlib, io
times, found = [], []
with default_settings():
    for name in sys.argv[1:]:
        began, secrets = time.process_time(), SecretsCollection()
        secrets.scan_file(name)
        times.append((time.process_time() - began) * 1000)
        found.append(sum(len(one) for one in secrets.data.values()))
print(json.dumps([times, found]))
"""


def texts(rows: int) -> list[str]:
    """Give texts of 2 KB each, made of real episodes or else of words."""
    data = os.environ.get("CYBEROS_BENCH_DATA")
    if data:
        lines = [line for file in sorted(Path(data).glob("*.episodes.jsonl")) for line in file.read_text().splitlines()]
        random.Random(1).shuffle(lines)
        bodies = ["\n".join(str(value) for value in json.loads(line).values()) for line in lines]
    else:
        rng = random.Random(1)
        words = [
            "fix",
            "the",
            "login",
            "test",
            "with",
            "find",
            "-name",
            "'*.md'",
            "|",
            "xargs",
            "sed",
            "-i",
            "s/a/b/",
            "see",
            "src/app.py:41",
            "9fceb02d0a",
        ]
        bodies = [" ".join(rng.choices(words, k=60)) for _ in range(rows * 6)]
    whole = "\n".join(bodies)
    return [whole[place : place + SIZE] for place in range(0, min(len(whole) - SIZE, rows * SIZE), SIZE)]


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]


def ours(bodies: list[str]) -> tuple[list[float], list[int]]:
    times, found = [], []
    for body in bodies:
        began = time.process_time()
        hits = scan(body)
        times.append((time.process_time() - began) * 1000)
        found.append(len(hits))
    return times, found


def beside(bodies: list[str]) -> tuple[list[float], list[int]] | None:
    tools = os.environ.get("CYBEROS_PROVE_TOOLS", "")
    python = Path(tools) / "bin/python"
    if not tools or not python.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{folder}/{number}.md" for number in range(len(bodies))]
        for name, body in zip(names, bodies, strict=True):
            Path(name).write_text(body, encoding="utf-8")
        done = subprocess.run([str(python), "-c", _BESIDE, *names], capture_output=True, text=True)
    return tuple(json.loads(done.stdout)) if done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000)
    rows = parser.parse_args().rows
    clean = texts(rows)
    secrets = [one for kind in KINDS for one in made(kind, 4)]
    planted = [
        f"{body[: SIZE // 2]}\n{before}{secret}{after}\n"
        for body, (before, secret, after) in zip(clean, secrets, strict=False)
    ]
    few = max(1, len(clean) // 10)
    print(f"{'':16} {'clean p50':>10} {'clean p95':>10} {'planted p95':>12} {'flags clean':>12} {'finds planted':>14}")
    for name, first, second in (
        ("cyberos", ours(clean), ours(planted)),
        ("detect-secrets", beside(clean[:few]), beside(planted)),
    ):
        if first is None or second is None:
            print(f"{name:16} not in CYBEROS_PROVE_TOOLS")
            continue
        flagged, caught = sum(map(bool, first[1])), sum(map(bool, second[1]))
        half = sorted(first[0])[len(first[0]) // 2]
        shares = f"{flagged}/{len(first[1])}", f"{caught}/{len(second[1])}"
        print(
            f"{name:16} {half:8.2f}ms {p95(first[0]):8.2f}ms {p95(second[0]):10.2f}ms {shares[0]:>12} {shares[1]:>14}"
        )


if __name__ == "__main__":
    main()
