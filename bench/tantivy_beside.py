"""tantivy beside FTS5 on the same terms: build, size, add, cold and warm recall. For ADR 0009.

`pip install tantivy` into an environment of its own, then `python bench/tantivy_beside.py --rows 10000`. Rows are made
from the tests' corpus, or from `--data FOLDER`. Both engines get the terms of our tokenizer and answer the same twelve
rarest terms of each task; tantivy scores by its own BM25. Milliseconds of wall time, medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from cyberos.index import fulltext, tokens
from cyberos.index.fulltext import Document
from cyberos.index.fulltext_fts5 import Fts5FullText

if TYPE_CHECKING:
    from collections.abc import Callable

CORPUS = Path(__file__).parents[1] / "tests" / "fixtures" / "episode_corpus.jsonl"
LIMIT = 50


class Tantivy:
    """An index whose one text field splits at spaces, as ours do."""

    def __init__(self, folder: str) -> None:
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_text_field("path", stored=True, tokenizer_name="raw")
        builder.add_text_field("kind", tokenizer_name="raw", index_option="basic")
        builder.add_text_field("words", tokenizer_name="whitespace", index_option="freq")
        self._tantivy = tantivy
        self._schema = builder.build()
        self._index = tantivy.Index(self._schema, path=folder)

    def apply(self, documents: list[Document]) -> None:
        writer = self._index.writer(heap_size=128_000_000, num_threads=1)
        for path, kind, _, text in documents:
            writer.delete_documents_by_term("path", path)
            words = " ".join(tokens.terms(text))
            writer.add_document(self._tantivy.Document(path=[path], kind=[kind], words=[words]))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def search(self, query: str) -> list[str]:
        tantivy, searcher = self._tantivy, self._index.searcher()
        found = {term: searcher.doc_freq("words", term) for term in set(tokens.content(tokens.terms(query)))}
        rare = sorted((count, term) for term, count in found.items() if count)[: fulltext.ASKED]
        should = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "words", term, "freq")) for _, term in rare
        ]
        kind = tantivy.Query.const_score_query(tantivy.Query.term_query(self._schema, "kind", "episode"), 0.0)
        wanted = tantivy.Query.boolean_query(should)
        asked = tantivy.Query.boolean_query([(tantivy.Occur.Must, wanted), (tantivy.Occur.Must, kind)])
        return [searcher.doc(address)["path"][0] for _, address in searcher.search(asked, LIMIT).hits]


class Fts5:
    """Ours, asked in the same way."""

    def __init__(self, folder: str) -> None:
        self._engine = Fts5FullText(Path(folder))

    def apply(self, documents: list[Document]) -> None:
        self._engine.apply(documents, (), stamp="1")

    def search(self, query: str) -> list[str]:
        return [hit.path for hit in self._engine.search(query, kind="episode", scope=None, limit=LIMIT)]


ENGINES: dict[str, Callable[[str], Any]] = {"fts5": Fts5, "tantivy": Tantivy}


def rows_of(data: str | None, count: int) -> list[dict[str, Any]]:
    source = Path(data, "nl2bash.episodes.jsonl") if data else CORPUS
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    made = []
    for number in range(count):
        row, run = rows[number % len(rows)], number // len(rows)
        made.append(row | {"task": f"{row['task']} (run {run})" if run else row["task"]})
    return made


def document(number: int, row: dict[str, Any]) -> Document:
    lines = [f"Task: {row['task']}", f"Approach: {row['approach']}", f"Outcome: {row['outcome']}"]
    lines.append(f"Notes: {row.get('notes') or ''}")
    path = f"memories/episodes/{number % 256:02x}/{number // 256 % 256:02x}/{number:08x}-000000.md"
    return Document(path, "episode", "default", "\n".join(lines))


def took(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def size(folder: str) -> float:
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--data", default=os.environ.get("CYBEROS_BENCH_DATA"), help="folder with real episodes")
    parser.add_argument("--once", nargs=3, metavar=("ENGINE", "FOLDER", "TASK"), help="ask once and end")
    arguments = parser.parse_args()
    if arguments.once:
        engine, folder, task = arguments.once
        ENGINES[engine](folder).search(task)
        return
    rows = rows_of(arguments.data, arguments.rows)
    tasks = [row["task"] for row in rows[:: max(1, len(rows) // 100)]][:100]
    documents = [document(number, row) for number, row in enumerate(rows)]
    top = Path(tempfile.mkdtemp())
    try:
        measure(top, documents, tasks)
    finally:
        shutil.rmtree(top)


def measure(top: Path, documents: list[Document], tasks: list[str]) -> None:
    tokenizing = took(lambda: [tokens.terms(row.text) for row in documents])
    print(f"{len(documents):,} documents; the tokenizer alone {tokenizing / 1000:.1f} s, part of both builds")
    for name in ENGINES:
        (top / name).mkdir()
        print(figures(name, str(top / name), documents, tasks))


def figures(name: str, folder: str, documents: list[Document], tasks: list[str]) -> str:
    engine = ENGINES[name](folder)
    built = took(lambda: engine.apply(documents)) / 1000
    adds = [document(10**7 + number, _row(task)) for number, task in enumerate(tasks)]
    one = median(took(lambda row=row: engine.apply([row])) for row in adds[:20])
    hundred = took(lambda: engine.apply(adds))
    warm = [took(lambda task=task: engine.search(task)) for task in tasks]
    once = [sys.executable, __file__, "--once", name, folder]
    cold = median(took(lambda task=task: subprocess.run([*once, task], check=True)) for task in tasks[:9])
    return (
        f"{name:<8} build {built:6.1f} s   {size(folder):6.1f} MB   add 1: {one:6.1f}   add 100: {hundred:6.1f}   "
        f"warm p50 {median(warm):5.1f} p95 {quantiles(warm, n=20)[-1]:5.1f}   cold process {cold:6.1f}"
    )


def _row(task: str) -> dict[str, Any]:
    return {"task": task, "approach": "as before", "outcome": "success"}


if __name__ == "__main__":
    main()
