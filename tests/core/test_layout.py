from __future__ import annotations

from hashlib import sha256

import pytest

from cyberos.core import layout
from cyberos.core.errors import UnsafePath
from cyberos.core.files import Files

GOOD = [
    "memories/facts/aa/bb/x.md",
    "memories/decisions/00/ff/2026-01-02_why.v2.md",
    "memories/people/0a/1b/Ada-Lovelace.md",
    "memories/projects/aa/bb/a..md",
    "memories/preferences/aa/bb/a.md.md",
    "memories/drift/aa/bb/" + "n" * 120 + ".md",
    "memories/refinements/aa/bb/console.md",
    "memories/facts/aa/bb/con-1.md",
    "memories/episodes/d4/12/d4127a3b-1f2c3d.md",
    "memories/episodes/d4/12/d4127a3b-" + "a" * 64 + ".md",
]

ATTACKS = [
    "",
    ".",
    "..",
    "/",
    "memories",
    "memories/",
    "memories/facts/aa/bb/",
    "/etc/passwd",
    "/memories/facts/aa/bb/x.md",
    "//memories/facts/aa/bb/x.md",
    "../memories/facts/aa/bb/x.md",
    "memories/../memories/facts/aa/bb/x.md",
    "memories/facts/aa/bb/../../../../../etc/cron.d/x.md",
    "memories/facts/../aa/bb/x.md",
    "memories/facts/aa/../bb/x.md",
    "memories/facts/aa/bb/..",
    "memories/facts/aa/bb/...md",
    "memories/facts/aa/bb/.md",
    "memories/facts/aa/bb/.hidden.md",
    "memories/facts/aa/bb/-rf.md",
    "memories/facts/aa/bb/_x.md",
    "memories/./facts/aa/bb/x.md",
    "./memories/facts/aa/bb/x.md",
    "memories//facts/aa/bb/x.md",
    "memories/facts/aa/bb//x.md",
    "memories/facts/aa/bb/x.md/",
    "memories/facts/aa/bb/x/y.md",
    "memories/facts/aa/x.md",
    "memories/facts/x.md",
    "memories/x.md",
    "memories\\facts\\aa\\bb\\x.md",
    "memories/facts/aa/bb\\x.md",
    "..\\..\\x.md",
    "C:\\memories\\x.md",
    "C:/memories/facts/aa/bb/x.md",
    "memories/facts/aa/bb/x.md:stream",
    "memories/facts/aa/bb/x:y.md",
    "file:///etc/passwd",
    "memories/facts/aa/bb/x\x00.md",
    "memories/facts/aa/bb/x.md\x00.txt",
    "memories/facts/aa/bb/x\n.md",
    "memories/facts/aa/bb/x.md\n",
    "memories/facts/aa/bb/x\x1b[0m.md",
    "memories/facts/aa/bb/x y.md",
    "memories/facts/aa/bb/x .md ",
    "memories/facts/aa/bb/ü.md",
    "memories/facts/aa/bb/x\u202e.md",
    "memories/facts/aa/bb/\uff0e\uff0e.md",
    "memories/facts/aa/bb/%2e%2e.md",
    "memories/facts/aa/bb/~.md",
    "memories/facts/aa/bb/$(id).md",
    "memories/facts/aa/bb/x.md.",
    "memories/facts/aa/bb/x.MD",
    "memories/facts/aa/bb/x.txt",
    "memories/facts/aa/bb/x",
    "memories/facts/AA/bb/x.md",
    "memories/facts/a/bb/x.md",
    "memories/facts/aaa/bb/x.md",
    "memories/facts/gg/bb/x.md",
    "memories/facts/a\u0661/bb/x.md",
    "memories/Facts/aa/bb/x.md",
    "memories/episode/aa/bb/x.md",
    "memories/secrets/aa/bb/x.md",
    "MEMORIES/facts/aa/bb/x.md",
    "audit/2026-11/30/0123456789abcdef.jsonl",
    ".cyberos/HEAD",
    ".cyberos/stage/x.md",
    ".git/config",
    "memories/facts/aa/bb/con.md",
    "memories/facts/aa/bb/NUL.md",
    "memories/facts/aa/bb/com1.md",
    "memories/facts/aa/bb/LPT9.txt.md",
    "memories/facts/aa/bb/aux.tar.gz.md",
    "memories/facts/aa/bb/" + "n" * 121 + ".md",
    "memories/facts/aa/bb/" + "n" * 5_000 + ".md",
    "memories/episodes/d4/12/x.md",
    "memories/episodes/d4/12/d4127a3b.md",
    "memories/episodes/d4/12/d4127a3b-1f2c3.md",
    "memories/episodes/d4/12/D4127A3B-1f2c3d.md",
    "memories/episodes/d4/12/d4127a3b-" + "a" * 65 + ".md",
]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path[:60])
def test_a_memory_may_lie_there(path):
    assert layout.check_memory_path(path) == path


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: ascii(path)[:60])
def test_no_memory_may_lie_there(path):
    with pytest.raises(UnsafePath) as caught:
        layout.check_memory_path(path)
    assert caught.value.path == path
    assert caught.value.reason


def test_there_are_at_least_sixty_attacks():
    assert len(set(ATTACKS)) >= 60


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: ascii(path)[:60])
def test_no_attack_reaches_the_disk(path, tmp_memory, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsafePath):
        tmp_memory.put(path, '---\n{"kind": "facts"}\n---\n')
    for call in (
        tmp_memory.adopt,
        lambda path: tmp_memory.forget(path, "r"),
        lambda path: tmp_memory.quarantine(path, "r"),
    ):
        with pytest.raises(UnsafePath):
            call(path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("path", ["", "/x", "a//b", "a/../b", "./a", "a/.", "a\\b", "a\x00b", "..", "a/"])
def test_even_below_the_layout_no_path_leaves_the_root(path, root):
    for call in (Files(root).read, Files(root).stat, Files(root).remove, Files(root).make_folder):
        with pytest.raises(UnsafePath):
            call(path)


@pytest.mark.parametrize("kind", [*layout.OLD_KINDS, layout.EPISODE])
def test_folder_and_kind_are_inverse(kind):
    assert layout.kind_of(f"memories/{layout.folder_of(kind)}/aa/bb/x.md") == kind


def test_an_episodes_path_begins_with_the_digest_of_its_task():
    digest = sha256("prüfen 🚀\nzwei".encode()).hexdigest()
    assert layout.episode_stem("prüfen 🚀\nzwei") == f"memories/episodes/{digest[:2]}/{digest[2:4]}/{digest[:8]}-"


def test_a_segment_is_named_by_its_first_row():
    path = layout.segment_path("0123456789abcdef" + "0" * 48, "2026-11-30T17:08:03.123456Z")
    assert path == "audit/2026-11/30/0123456789abcdef.jsonl"
    assert layout.is_segment_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "audit/2026-13/30/0123456789abcdef.jsonl",
        "audit/2026-11/32/0123456789abcdef.jsonl",
        "audit/2026-11/0123456789abcdef.jsonl",
        "audit/2026-11/30/0123456789ABCDEF.jsonl",
        "audit/2026-11/30/0123456789abcdef.json",
        "audit/2026-11/30/0123456789abcdef.jsonl\n",
        "audit/٢٠٢٦-11/30/0123456789abcdef.jsonl",
        "audit/2026-11/30/.gitkeep",
        "x/audit/2026-11/30/0123456789abcdef.jsonl",
    ],
)
def test_anything_else_in_audit_is_no_segment(path):
    assert not layout.is_segment_path(path)
