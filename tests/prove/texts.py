"""Any text: what we write, every reader of YAML or JSON frontmatter reads alike."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cyberos.core import frontmatter, text
from cyberos.core.episode import Episode
from cyberos.core.errors import InvalidMemory
from prove.mutants import ODD
from prove.table import Skipped, folder, promise, share
from prove.tools import folder_of_tools, on_path

CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXT = st.lists(st.one_of(st.sampled_from(ODD), st.text(CHARACTERS, max_size=12)), max_size=8).map("".join)
TEXTS = TEXT.map(text.strip)
NAMED = st.builds("{}x{}".format, TEXTS, TEXTS)  # not blank
EPISODES = st.builds(
    Episode,
    task=NAMED,
    approach=NAMED,
    outcome=st.sampled_from(["success", "partial", "failure"]),
    error=NAMED,
    duration_ms=st.integers(0, 2**53 - 1),
    token_cost=st.none() | st.integers(0, 2**53 - 1),
    quality_score=st.none() | st.floats(0, 1) | st.sampled_from([0.0, -0.0, 1e-05, 5e-324, 1 / 3]),
    notes=TEXTS,
    lesson=TEXTS,
    tags=st.lists(NAMED, max_size=3),
)


@cache
def written(count: int) -> list[tuple[dict, str]]:
    """Give as many episodes that hypothesis thinks of: their values and the text of the file."""
    made: dict[str, dict] = {}

    @settings(
        max_examples=count + count // 10,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(EPISODES)
    def think(one):
        if len(made) < count:
            made[one.render()] = one.frontmatter()

    try:
        think()
    except InvalidMemory as error:
        raise AssertionError(f"an episode of plain text was refused: {error}") from error
    return [(values, whole) for whole, values in made.items()]


def ours(whole: str) -> dict:
    return frontmatter.parse(whole).frontmatter


def by_pyyaml(whole: str) -> dict:
    import yaml

    return yaml.load(frontmatter.parse(whole).block, Loader=yaml.SafeLoader)


def by_python_frontmatter(whole: str) -> dict:
    import frontmatter as other

    return other.loads(whole).metadata


@promise("any text comes back as it was: our reader, PyYAML, python-frontmatter")
def python_readers(scale: float) -> tuple[str, bool]:
    wrong = []
    made = written(share(20_000, scale if scale == 1 else scale / 5))
    for read in (ours, by_pyyaml, by_python_frontmatter):
        for values, whole in made:
            if read(whole) != values or (read is ours and Episode.from_frontmatter(ours(whole)).render() != whole):
                wrong.append(f"{read.__name__} {whole!r}")
    return f"{len(made):,} episodes by 3 readers, {len(wrong)} differ {wrong[:1] or ''}", not wrong


_NODE = """
const fs = require("fs"), matter = require("gray-matter"), yaml = require("js-yaml");
const out = [];
for (const line of fs.readFileSync(0, "utf8").split("\\n")) {
  if (!line) continue;
  const {whole, block} = JSON.parse(line);
  out.push(JSON.stringify([matter(whole, {}).data, yaml.load(block)]));
}
fs.writeSync(1, "");
fs.writeFileSync(process.argv[1], out.join("\\n"));
"""


@promise("any text comes back as it was: gray-matter and js-yaml under node")
def node_readers(scale: float) -> tuple[str, bool]:
    node = on_path("node")
    modules = folder_of_tools() / "node_modules"
    if not ((modules / "gray-matter").is_dir() and (modules / "js-yaml").is_dir()):
        raise Skipped("gray-matter and js-yaml are not in CYBEROS_PROVE_TOOLS")
    made = written(share(20_000, scale if scale == 1 else scale / 5))
    asked = "\n".join(json.dumps({"whole": whole, "block": frontmatter.parse(whole).block}) for _, whole in made)
    with folder() as top:
        command = [node, "-e", _NODE, str(top / "answer")]
        seen = os.environ | {"NODE_PATH": str(modules)}
        done = subprocess.run(command, input=asked, env=seen, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answers = (top / "answer").read_text(encoding="utf-8").split("\n")
    assert len(answers) == len(made)
    wrong = [
        whole for (values, whole), answer in zip(made, answers, strict=True) if json.loads(answer) != [values, values]
    ]
    return f"{len(made):,} episodes by 2 readers, {len(wrong)} differ {wrong[:1] or ''}", not wrong
