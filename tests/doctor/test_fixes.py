"""`doctor --fix`: what loses nothing is put right, what is put right is what `--diff` showed, and the rest stays."""

import json
import os
import shutil
from hashlib import sha256

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cyberos.cli.main import main
from cyberos.core import contract, layout, ledger, state
from cyberos.core.episode import Episode, log
from cyberos.core.files import Files
from cyberos.core.vault import ATTRIBUTES
from cyberos.core.writer import Writer
from cyberos.doctor import fixes, spelling
from cyberos.doctor.examination import examine
from cyberos.index import sync
from support import episode, fact, write_raw

RICH = {
    "task": "yes: ship #7 — “the login form”",
    "approach": "no",
    "outcome": "failure",
    "error": "007",
    "duration_ms": 1800000,
    "token_cost": 12,
    "quality_score": 1.0,
    "notes": "first line\n\n  second: line \\ with \U0001f600",
    "lesson": "2026-11-30",
    "evidence": "test",
    "evidence_ref": "pytest -q -> exit 1",
    "tags": ["a, b", "null", "1.0"],
    "occurred_at": "2026-11-30T17:08:03Z",
}
OBSIDIAN = """\
---
task: "yes: ship #7 — “the login form”"
approach: "no"
outcome: failure
error: "007"
duration_ms: 1800000
token_cost: 12
quality_score: 1
notes: |-
  first line

    second: line \\ with \U0001f600
lesson: 2026-11-30
evidence: test
evidence_ref: pytest -q -> exit 1
tags:
  - a, b
  - "null"
  - "1.0"
occurred_at: 2026-11-30T17:08:03Z
kind: episode
---
"""


def parts(text):
    """Give an episode's values and what follows its frontmatter."""
    block, body = text.removeprefix("---\n").split("\n---\n", 1)
    return json.loads(block), body


def as_json(text, **options):
    values, body = parts(text)
    return f"---\n{json.dumps(values, **options)}\n---\n{body}"


def as_yaml(text, **options):
    values, body = parts(text)
    return f"---\n{yaml.safe_dump(values, **options)}---\n{body}"


def obsidian(text):
    return OBSIDIAN + parts(text)[1]


RESPELLINGS = {
    "Obsidian's YAML": obsidian,
    "any YAML": as_yaml,
    "YAML with every character": lambda text: as_yaml(text, allow_unicode=True, sort_keys=False, width=20),
    "YAML with a BOM and CRLF": lambda text: "\ufeff" + obsidian(text).replace("\n", "\r\n"),
    "compact JSON": lambda text: as_json(text, separators=(",", ":")),
    "JSON, deeper, escaped": lambda text: as_json(text, indent=4),
    "JSON in another order": lambda text: as_json(text, sort_keys=False, indent=2).replace("{", "{ ", 1),
    "a whole number for a float": lambda text: text.replace('"quality_score": 1.0', '"quality_score": 1'),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CRLF in part": lambda text: text.replace("\n", "\r\n", 5),
    "a BOM": lambda text: "\ufeff" + text,
    "UTF-16": lambda text: text.encode("utf-16"),
    "no last line end": lambda text: text.rstrip("\n"),
    "more last line ends": lambda text: text + "\n\n",
    "blanks added at line ends": lambda text: text.replace("\nApproach:", "  \nApproach:"),
}


@pytest.fixture
def vault(root):
    writer = Writer(root)
    for path, body in (fact("we deploy on Tuesdays"), fact("we never deploy on Fridays")):
        writer.put(path, body)
    log(writer, episode("another"))
    return root


def put_rich(root, **fields):
    path = log(Writer(root), Episode(**RICH | fields))
    return path.as_posix(), (root / path).read_text(encoding="utf-8")


def respell(root, path, content):
    """Save as an editor does: a new file in place of the old."""
    (root / path).unlink()
    write_raw(root / path, content)


def snapshot(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def rules(root):
    return {finding.rule for finding in examine(root).findings}


@pytest.mark.parametrize("how", RESPELLINGS)
def test_a_respelled_episode_is_spelled_as_it_was_logged(vault, how, capsys):
    path, text = put_rich(vault)
    respell(vault, path, RESPELLINGS[how](text))
    assert "memory-modified" in rules(vault)
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    assert (vault / path).read_bytes() == text.encode()
    assert f"fixed: {path}: spelled again as it was logged" in capsys.readouterr().err
    assert rules(vault) == set()
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    assert "nothing was fixed" in capsys.readouterr().err


@pytest.mark.parametrize("how", RESPELLINGS)
def test_diff_shows_just_that_and_writes_nothing(vault, how, capsys):
    path, text = put_rich(vault)
    respell(vault, path, RESPELLINGS[how](text))
    before = snapshot(vault)
    assert main(["--store", str(vault), "doctor", "--diff"]) == 1
    assert snapshot(vault) == before
    shown = capsys.readouterr()
    assert shown.out.startswith(f"--- a/{path}\n+++ b/{path}\n@@ ")
    assert f"would fix: {path}" in shown.err
    planned = fixes.plan(vault, examine(vault)).changes
    assert fixes.mend(vault, examine(vault)).changes == planned
    assert {change.path: change.after for change in planned if change.before} == {path: text.encode()}


def test_the_blank_after_notes_that_an_editor_cuts(vault):
    path, text = put_rich(vault, notes="")
    assert "Notes: \n" in text
    respell(vault, path, text.replace("Notes: \n", "Notes:\n"))
    assert rules(vault) == {"memory-modified", "episode-body-matches-frontmatter"}
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    assert (vault / path).read_bytes() == text.encode()


def test_both_flags_together_show_and_write_nothing(vault):
    path, text = put_rich(vault)
    respell(vault, path, as_yaml(text))
    before = snapshot(vault)
    assert main(["--store", str(vault), "doctor", "--fix", "--diff"]) == 1
    assert snapshot(vault) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("failure", "success"),
        lambda text: as_yaml(text.replace("first line", "first lines")),
        lambda text: as_yaml(text) + "A word of my own.\n",
        lambda text: text.replace("Approach: no", "Approach: no, I mean yes"),
        lambda text: as_yaml(text).replace("kind: episode", "kind: episode  # a remark"),
        lambda text: as_yaml(text).replace("---\napproach", "---\n# a remark\napproach"),
        lambda text: as_yaml(text).replace("\n---\n", "\n# a remark\n---\n"),
        lambda text: obsidian(text).replace("notes: |-", "notes: |- # a remark"),
        lambda text: as_yaml(text).replace("kind: episode", "kind: episode\nmood: good"),
        lambda text: as_yaml(text).replace("kind: episode", "kind: [episode"),
        lambda text: "",
        lambda text: text.encode()[:-9] + b"\xff\xfe",
    ],
)
def test_what_would_lose_a_word_stays_as_it_is(vault, change):
    path, text = put_rich(vault)
    changed = change(text)
    assert changed != text
    respell(vault, path, changed)
    found = (vault / path).read_bytes()
    assert main(["--store", str(vault), "doctor", "--fix"]) == 1
    assert (vault / path).read_bytes() == found
    assert "memory-modified" in rules(vault)


@pytest.mark.parametrize("how", ["CRLF", "CRLF in part", "a BOM", "UTF-16", "no last line end", "more last line ends"])
def test_memories_of_other_kinds_get_their_bytes_back(vault, how):
    path, text = fact("we deploy on Tuesdays")
    respell(vault, path, RESPELLINGS[how](text))
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    assert (vault / path).read_bytes() == text.encode()


def test_a_fact_whose_json_became_yaml(vault):
    path, text = fact("we deploy on Tuesdays")
    respell(vault, path, text.replace('{\n  "kind": "facts"\n}', "kind: facts"))
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    assert (vault / path).read_bytes() == text.encode()


def test_an_earlier_put_or_a_forgotten_one_is_not_brought_back(vault):
    path, text = fact("we deploy on Tuesdays")
    Writer(vault).put(path, text + "\nAnd on Mondays.\n")
    respell(vault, path, text.replace("\n", "\r\n"))
    gone, gone_text = fact("we never deploy on Fridays")
    Writer(vault).forget(gone, "it was wrong")
    write_raw(vault / gone, gone_text.replace("\n", "\r\n"))
    assert main(["--store", str(vault), "doctor", "--fix"]) == 1
    assert (vault / path).read_bytes() == text.replace("\n", "\r\n").encode()
    assert (vault / gone).read_bytes() == gone_text.replace("\n", "\r\n").encode()


def test_either_of_the_bytes_that_two_branches_put_comes_back(repo):
    path, text = fact("we deploy on Tuesdays")
    repo.branch("other")
    repo.put(path, text)
    repo.commit()
    repo.switch("main")
    repo.put(path, text + "\nAnd on Mondays.\n")
    repo.commit()
    repo.git("merge", "-q", "-X", "ours", "--no-edit", "other")
    for body in (text, text + "\nAnd on Mondays.\n"):
        write_raw(repo.root / path, body.replace("\n", "\r\n"))
        assert main(["--store", str(repo.root), "doctor", "--fix"]) == 0
        assert (repo.root / path).read_bytes() == body.encode()


def test_an_editor_that_saves_in_place_has_written_to_the_stage_too(vault):
    path, text = put_rich(vault)
    write_raw(vault / path, text.replace("\n", "\r\n"))
    assert os.stat(vault / path).st_nlink == 2
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    log(Writer(vault), episode("the next write recovers"))
    assert (vault / path).read_bytes() == text.encode()
    assert not (vault / layout.LOST).exists()
    assert rules(vault) == set()


def test_nothing_is_lost_where_the_bytes_cannot_be_put_in_place(vault, monkeypatch, capsys):
    path, text = put_rich(vault)
    respell(vault, path, as_yaml(text))
    found = (vault / path).read_bytes()

    def refuse(self, source, target):
        raise OSError(30, "Read-only file system", target)

    with monkeypatch.context() as patched:
        patched.setattr(Files, "replace", refuse)
        assert main(["--store", str(vault), "doctor", "--fix"]) == 1
    assert "not fixed: restore: Read-only file system" in capsys.readouterr().err
    assert (vault / path).read_bytes() == found
    log(Writer(vault), episode("the next write recovers"))
    assert not list((vault / layout.STAGE).glob("*.restored"))
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0


@pytest.mark.parametrize("folder", ["memories/facts", "memories/episodes"])
def test_only_the_named_files_and_the_selected_rules(vault, folder):
    path, text = put_rich(vault)
    other, other_text = fact("we deploy on Tuesdays")
    respell(vault, path, as_yaml(text))
    respell(vault, other, "\ufeff" + other_text)
    main(["--store", str(vault), "doctor", "--fix", str(vault / folder)])
    assert ((vault / path).read_bytes() == text.encode()) == (folder == "memories/episodes")
    assert ((vault / other).read_bytes() == other_text.encode()) == (folder == "memories/facts")
    assert main(["--store", str(vault), "doctor", "--fix", "--select", "ledger-hash"]) == 0
    assert rules(vault) != set()
    assert main(["--store", str(vault), "doctor", "--fix", "--select", "memory-modified"]) == 0
    assert rules(vault) == set()


def test_the_exit_code_and_the_document_are_those_of_what_remains(vault, capsys):
    path, text = put_rich(vault)
    respell(vault, path, as_yaml(text))
    write_raw(vault / fact("by hand")[0], fact("by hand")[1])
    assert main(["--store", str(vault), "doctor", "--fix", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["rule"] for finding in found] == ["memory-unlogged"]


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)


@given(task=TEXT, notes=TEXT, tags=st.lists(TEXT, max_size=3), score=st.floats(0, 1), is_unicode=st.booleans())
def test_any_episode_comes_back_from_yaml(task, notes, tags, score, is_unicode):
    values = {"task": f"T{task}", "notes": notes, "tags": [f"t{tag}" for tag in tags], "quality_score": score}
    made = Episode(**{"approach": "a", "outcome": "success", "duration_ms": 1} | values)
    path = f"{layout.episode_stem(made.task)}0a1b2c.md"
    respelled = as_yaml(made.render(), allow_unicode=is_unicode)
    assert made.render().encode() in set(spelling.guesses(path, respelled.encode()))


# --- what a crash leaves ----------------------------------------------------------------------------------------------


def newest(root):
    return max(root.glob("audit/*/*/*.jsonl"), key=lambda file: file.stat().st_mtime_ns)


@pytest.mark.parametrize("is_tracked", [False, True])
def test_a_torn_tail_is_cut_and_kept(repo, is_tracked, capsys):
    repo.log()
    if is_tracked:
        repo.commit()
    segment = newest(repo.root)
    whole = segment.read_bytes()
    segment.write_bytes(whole + b'{"actor":"agent","ki')
    if is_tracked:
        repo.commit("a torn tail")
    assert rules(repo.root) == {"ledger-tx"}
    before = snapshot(repo.root)
    assert main(["--store", str(repo.root), "doctor", "--diff"]) == 0
    assert snapshot(repo.root) == before
    assert '-{"actor":"agent","ki\n' in capsys.readouterr().out
    assert main(["--store", str(repo.root), "doctor", "--fix"]) == 0
    assert segment.read_bytes() == whole
    assert [file.read_bytes() for file in (repo.root / layout.LOST).iterdir()] == [b'{"actor":"agent","ki']
    assert rules(repo.root) == set()
    repo.log("and on it goes")
    assert rules(repo.root) == set()


def test_a_segment_that_held_nothing_whole_goes(vault):
    lone = vault / "audit" / "2026-11" / "30" / "0123456789abcdef.jsonl"
    write_raw(lone, b'{"actor":"agent","ki')
    assert rules(vault) == {"ledger-tx"}
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    assert not lone.exists()
    assert rules(vault) == set()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_body_that_waits_in_the_stage_gets_its_place(vault, is_replaced, capsys):
    path, text = fact("we deploy on Tuesdays")
    if is_replaced:
        Writer(vault).put(path, text + "\nAnd on Mondays.\n")
    body = (vault / path).read_bytes()
    write_raw(vault / layout.STAGE / f"{sha256(body).hexdigest()}-0", body)
    (vault / path).unlink()
    (vault / layout.HEAD).unlink()
    if is_replaced:
        write_raw(vault / path, text)
    assert rules(vault) == {"memory-unlinked"}
    assert main(["--store", str(vault), "doctor", "--diff"]) == 0
    assert capsys.readouterr().out.startswith(f"--- {f'a/{path}' if is_replaced else '/dev/null'}\n+++ b/{path}\n")
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    assert (vault / path).read_bytes() == body
    assert rules(vault) == set()
    assert list((vault / layout.STAGE).iterdir()) == []


def test_damage_of_the_ledger_is_not_touched_and_hinders_no_other_fix(vault, capsys):
    path, text = put_rich(vault)
    segment = newest(vault)
    lines = segment.read_bytes().split(b"\n")
    segment.write_bytes(b"\n".join([lines[0], lines[1].replace(b"agent", b"Agent"), *lines[2:]]) + b'{"actor"')
    respell(vault, path, as_yaml(text))
    damaged = segment.read_bytes()
    assert main(["--store", str(vault), "doctor", "--fix"]) == 1
    assert segment.read_bytes() == damaged
    assert (vault / path).read_bytes() == text.encode()
    assert "not fixed: recover: " in capsys.readouterr().err


# --- what is derived, and the lines of `init` -------------------------------------------------------------------------


def forge_heads(root):
    found = json.loads((root / layout.HEAD).read_bytes())
    found["heads"] = {"0" * 64: 7}
    (root / layout.HEAD).write_text(json.dumps(found))


@pytest.mark.parametrize("spoil", [forge_heads, lambda root: (root / layout.HEAD).write_text("{")])
def test_a_stale_head_is_dropped(vault, spoil, capsys):
    spoil(vault)
    assert main(["--store", str(vault), "doctor", "--diff"]) == 0
    assert (vault / layout.HEAD).exists()
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    assert "fixed: .cyberos/HEAD: dropped" in capsys.readouterr().err
    assert not (vault / layout.HEAD).exists()
    log(Writer(vault), episode("and on it goes"))
    assert rules(vault) == set()


def test_a_head_that_is_right_stays(vault):
    before = snapshot(vault)
    assert state.load(Files(vault)) is not None
    assert fixes.mend(vault, examine(vault)).changes == []
    assert snapshot(vault) == before


def test_a_damaged_index_is_dropped_and_made_again(vault, capsys):
    sync.sync(vault).catalog.close()
    catalog = vault / layout.INDEX / "catalog.sqlite"
    catalog.write_bytes(catalog.read_bytes()[:100] + b"\0" * 8000)
    assert main(["--store", str(vault), "doctor", "--diff"]) == 0
    assert catalog.exists()
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    assert "fixed: .cyberos/index: dropped" in capsys.readouterr().err
    assert not catalog.exists()
    with sync.sync(vault) as made:
        assert made.reason is None
    assert fixes.plan(vault, examine(vault)).changes == []


def test_a_damaged_engine_counts_as_well(vault):
    sync.sync(vault).catalog.close()
    for file in (vault / layout.INDEX / "whoosh").iterdir():
        file.write_bytes(b"no index")
    assert [change.path for change in fixes.plan(vault, examine(vault)).changes] == [layout.INDEX]
    fixes.mend(vault, examine(vault))
    assert fixes.plan(vault, examine(vault)).changes == []


@pytest.mark.parametrize("mine", ["*.png binary", "*.png binary\n", ""])
def test_missing_lines_come_after_those_of_the_user(vault, mine, capsys):
    (vault / ".gitattributes").write_text(mine)
    (vault / ".ignore").unlink()
    assert main(["--store", str(vault), "doctor", "--diff"]) == 0
    assert "+memories/** -text\n" in capsys.readouterr().out
    assert not (vault / ".ignore").exists()
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    found = (vault / ".gitattributes").read_text()
    assert found.splitlines() == [*mine.splitlines(), *ATTRIBUTES]
    assert (vault / ".ignore").read_text() == "/audit/\n"
    assert main(["--store", str(vault), "doctor", "--fix"]) == 0
    assert (vault / ".gitattributes").read_text() == found


def test_a_link_in_place_of_the_users_file_is_not_followed(vault, tmp_path, capsys):
    (vault / ".gitattributes").unlink()
    (tmp_path / "elsewhere").write_text("mine\n")
    (vault / ".gitattributes").symlink_to(tmp_path / "elsewhere")
    main(["--store", str(vault), "doctor", "--fix"])
    assert "not fixed: attributes: " in capsys.readouterr().err
    assert (tmp_path / "elsewhere").read_text() == "mine\n"


# --- the law of fixes -------------------------------------------------------------------------------------------------


def test_each_name_in_the_law_has_its_fix_and_each_fix_its_name():
    named = {rule.fix for rule in contract.rules().values()} - {None}
    assert named | set(fixes.UNASKED) == set(fixes.FIXES)
    assert named & set(fixes.UNASKED) == set()


def test_no_fix_writes_a_row_or_takes_one_away(vault):
    path, text = put_rich(vault)
    respell(vault, path, as_yaml(text))
    newest(vault).write_bytes(newest(vault).read_bytes() + b'{"a')
    (vault / layout.HEAD).write_text("{")
    (vault / ".ignore").unlink()
    rows = ledger.scan(vault).rows
    assert len(fixes.mend(vault, examine(vault)).changes) >= 3
    assert ledger.scan(vault).rows == rows


def test_a_vault_that_cannot_be_written_can_still_be_asked(vault, tmp_path):
    path, text = put_rich(vault)
    respell(vault, path, as_yaml(text))
    shutil.rmtree(vault / layout.PRIVATE)
    before = snapshot(vault)
    assert main(["--store", str(vault), "doctor", "--diff"]) == 1
    assert snapshot(vault) == before
    assert not (vault / layout.PRIVATE).exists()
