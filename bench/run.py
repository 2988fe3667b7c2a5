"""Every benchmark, as ratios to a floor in the same run: `make bench`.

`--data FOLDER` (or CYBEROS_BENCH_DATA) names a folder with nl2bash.episodes.jsonl; without it the labelled corpus of
the tests is expanded to 10,000 rows.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import imports
import meaning
import recall
import start

import doctor
import embed

CORPUS = Path(__file__).parents[1] / "tests" / "fixtures" / "episode_corpus.jsonl"


def expand(count: int, target: Path, source: Path = CORPUS) -> Path:
    """Write `count` rows made from those of a file, the corpus if no other, each with a task of its own."""
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    with target.open("w", encoding="utf-8") as handle:
        for number in range(count):
            row = rows[number % len(rows)]
            row = row | {"task": f"{row['task']} (run {number // len(rows)})"}
            handle.write(json.dumps(row) + "\n")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("CYBEROS_BENCH_DATA"), help="folder with real episodes")
    parser.add_argument("--large", action="store_true", help="also 100,000 episodes, which takes minutes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        real = Path(arguments.data, "nl2bash.episodes.jsonl") if arguments.data else None
        rows = real if real and real.is_file() else expand(10_000, Path(folder, "rows.jsonl"))
        print(f"episodes: {'nl2bash' if rows == real else 'the corpus, expanded'}")
        for line in (
            *start.lines(),
            *imports.lines(rows),
            *recall.lines(rows),
            *meaning.lines(rows),
            *doctor.lines(rows),
        ):
            print(line, flush=True)
        embed.main()
        if arguments.large:
            large = expand(100_000, Path(folder, "large.jsonl"), rows)
            for line in (*recall.large(large), *meaning.lines(large, 100_000), *doctor.lines(large)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
