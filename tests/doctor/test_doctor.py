"""`cyberos doctor` as its users meet it: which files, which rules, what it prints, what it returns."""

import json
import os
import shutil
import socket
import threading

import pytest

from cyberos.cli.main import main
from cyberos.core import contract, layout, ledger
from cyberos.core.episode import log
from cyberos.core.lock import lock
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from cyberos.doctor import checks_file, checks_ledger, checks_memory, examination, walker
from cyberos.doctor.examination import examine
from cyberos.doctor.findings import Finding, Report
from cyberos.doctor.formats.text import lines
from cyberos.doctor.stage import Stage
from support import episode, fact, write_raw


@pytest.fixture
def vault(seeded_memory, monkeypatch):
    """Give the root of a vault with five episodes and five facts, none of them still in the stage, and go there."""
    shutil.rmtree(seeded_memory.path / ".cyberos")
    monkeypatch.chdir(seeded_memory.path)
    return seeded_memory.path


def paths(root, kind="facts"):
    return sorted(path.relative_to(root).as_posix() for path in (root / "memories" / kind).rglob("*.md"))


def rules(report):
    return [finding.rule for finding in report.findings]


def edit(root, path, old=b"task", new=b"TASK"):
    file = root / path
    file.write_bytes(file.read_bytes().replace(old, new))


# --- output and exit codes ------------------------------------------------------------------------------------------


def test_a_whole_vault_is_clean_and_that_is_said_in_one_line(vault, capsys):
    assert main(["doctor"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "no errors, no warnings (10 files, 16 rows)\n"


def test_text_goes_to_stderr_with_path_line_rule_message_and_hint(vault, capsys):
    path = paths(vault)[0]
    edit(vault, path)
    assert main(["doctor"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    first, second, *_, last = err.splitlines()
    assert first == f"{path}:1: memory-modified the file is not as it was logged"
    assert second.startswith("  hint: ")
    assert path in second
    assert last == "1 error, no warnings (10 files, 16 rows)"


def test_json_is_one_document_on_stdout(vault, capsys):
    (vault / paths(vault)[0]).unlink()
    assert main(["doctor", "--format", "json"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert list(document) == ["findings", "summary"]
    assert document["summary"] == {"errors": 1, "warnings": 0, "info": 0, "files": 9, "rows": 16}
    (finding,) = document["findings"]
    assert list(finding) == ["rule", "severity", "path", "line", "pointer", "message", "hint"]
    assert finding["rule"] == "memory-missing"
    assert finding["line"] == 1


def test_warnings_alone_are_no_failure(vault, capsys):
    Writer(vault).emit_aux("consolidation.published", {"episodes": 3})
    assert main(["doctor"]) == 0
    assert ": ledger-row-unknown warning: " in capsys.readouterr().err


def test_forty_findings_of_a_rule_are_summed_up_after_ten():
    def report(count):
        found = [Finding("memory-missing", "error", f"memories/{n:03}", 1, "", "gone", None) for n in range(count)]
        return list(lines(Report(found, 0, 0)))

    assert len(report(39)) == 39 + 2
    assert len(report(40)) == 10 + 3
    assert report(4000)[10] == "... memory-missing: 3,990 more like these; `--format json` lists them all"
    assert report(4000)[-1] == "4,000 errors, no warnings (no files, no rows)"


def test_a_path_cannot_move_the_cursor_or_break_the_line(vault, capsys):
    write_raw(vault / "memories" / "a\n\x1b[2Jb.md", "x")
    assert main(["doctor"]) == 1
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "memories/a\\n\\u{1b}[2Jb.md:1: layout-path-safe" in err


def test_a_name_that_is_no_text(vault, capsys):
    try:
        write_raw(vault / "memories" / os.fsdecode(b"\xff.md"), "x")
    except OSError:
        pytest.skip("this file system takes only text for names")
    assert main(["doctor"]) == 1
    assert "memories/\\u{dcff}.md:1: layout-path-safe" in capsys.readouterr().err
    assert main(["doctor", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["path"] == "memories/\udcff.md"


def test_the_same_vault_gives_the_same_report(vault):
    for path in paths(vault):
        edit(vault, path)
    write_raw(vault / "memories/notes.txt", "x")
    report = examine(vault)
    assert report == examine(vault)
    assert report.findings == sorted(report.findings, key=lambda one: (one.path, one.line))


def test_select_and_ignore(vault, capsys):
    edit(vault, paths(vault)[0])
    write_raw(vault / "memories/notes.txt", "x")
    assert main(["doctor", "--select", "memory-modified"]) == 1
    assert "layout-path-safe" not in capsys.readouterr().err
    assert main(["doctor", "--ignore", "memory-modified", "--ignore", "layout-path-safe"]) == 0
    assert main(["doctor", "--select", "ledger-hash"]) == 0
    assert main(["doctor", "--select", "memory-modifed"]) == 2
    assert "Did you mean 'memory-modified'?" in capsys.readouterr().err


# --- FILES ----------------------------------------------------------------------------------------------------------


def test_only_the_named_files_and_the_rows_about_them(vault, capsys):
    first, second, third, *_ = paths(vault)
    for path in (first, second):
        edit(vault, path)
    assert main(["doctor", third]) == 0
    assert capsys.readouterr().err == "no errors, no warnings (1 file, 1 row)\n"
    assert main(["doctor", first, third]) == 1
    err = capsys.readouterr().err
    assert f"{first}:1: memory-modified" in err
    assert second not in err


def test_a_file_may_be_named_from_here_from_the_root_or_absolutely(vault, monkeypatch, tmp_path):
    path = paths(vault)[0]
    edit(vault, path)
    folder, name = os.path.split(path)
    assert main(["doctor", str(vault / path)]) == 1
    monkeypatch.chdir(vault / folder)
    for given in (name, path, f"../{folder.rsplit('/', 1)[1]}/{name}"):
        assert main(["doctor", given]) == 1
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", str(vault / path)]) == 1
    assert main(["--store", str(vault), "doctor", path]) == 1
    (tmp_path / "link").symlink_to(vault)
    assert main(["doctor", str(tmp_path / "link" / path)]) == 1


def test_a_file_outside_any_vault_or_unknown_is_a_usage_error(vault, monkeypatch, tmp_path, capsys):
    write_raw(tmp_path / "x.md", "x")
    for given in (str(tmp_path / "x.md"), "../x.md", "memories/facts/00/00/none.md"):
        assert main(["doctor", given]) == 2
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "x.md"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_deleted_file_that_the_ledger_knows_is_missing(vault, capsys):
    path = paths(vault)[0]
    (vault / path).unlink()
    assert main(["doctor", path]) == 1
    assert f"{path}:1: memory-missing" in capsys.readouterr().err


def test_a_folder_stands_for_all_that_is_below_it(vault, capsys):
    edit(vault, paths(vault)[0])
    (vault / paths(vault)[1]).unlink()
    write_raw(vault / "memories/facts/notes.txt", "x")
    assert main(["doctor", "memories/episodes"]) == 0
    assert main(["doctor", "memories/facts"]) == 1
    err = capsys.readouterr().err
    assert all(rule in err for rule in ("memory-modified", "memory-missing", "layout-path-safe"))


def test_the_vault_itself_stands_for_all_of_it(vault, capsys):
    edit(vault, paths(vault)[0])
    for given in (".", str(vault)):
        assert main(["doctor", given]) == 1
        assert "(10 files, 16 rows)" in capsys.readouterr().err


def test_many_deleted_files_cost_one_reading_of_the_ledger(vault, monkeypatch):
    gone = paths(vault)
    for path in gone:
        (vault / path).unlink()
    read = []
    scan = ledger.scan
    monkeypatch.setattr(ledger, "scan", lambda root, *noted: read.append(root) or scan(root, *noted))
    assert main(["doctor", *gone]) == 1
    assert len(read) == 2  # to know the names, and to examine


def test_a_segment_may_be_named_and_other_files_are_said_to_be_left_out(vault, capsys):
    write_raw(vault / "README.md", "x")
    assert main(["doctor", "README.md"]) == 0
    assert "README.md: neither memory nor ledger" in capsys.readouterr().err
    segment = next(file for file in (vault / "audit").rglob("*.jsonl") if b"facts" in file.read_bytes())
    segment.write_bytes(segment.read_bytes().replace(b"facts", b"factz", 1))
    assert main(["doctor", str(segment)]) == 1
    assert "ledger-hash" in capsys.readouterr().err


def test_damage_that_hides_the_rows_of_a_file_is_told_with_that_file(vault, capsys):
    path = paths(vault)[0]
    segment = next(file for file in (vault / "audit").rglob("*.jsonl") if path.encode() in file.read_bytes())
    segment.write_bytes(segment.read_bytes().replace(b'"actor":"agent"', b'"actor":"agenz"', 2))
    assert main(["doctor", path]) == 1
    assert "ledger-hash" in capsys.readouterr().err


# --- beside others --------------------------------------------------------------------------------------------------


def test_nothing_is_written_and_no_lock_is_taken(vault, monkeypatch):
    def read_only(path, flags, *rest, **options):
        assert not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT), path
        return opened(path, flags, *rest, **options)

    opened = os.open
    Writer(vault).put(*fact("one that still waits in the stage"))
    with lock(str(vault / layout.LOCK), 1):
        monkeypatch.setattr(os, "open", read_only)
        for name in ("mkdir", "unlink", "rename", "replace", "link", "utime", "truncate"):
            monkeypatch.delattr(os, name)
        assert examine(vault).findings == []


def between(monkeypatch, act):
    """Let `act` happen after the walk and before the ledger is read."""
    walk = walker.walk

    def walked(*arguments):
        yield from walk(*arguments)
        act()

    monkeypatch.setattr(walker, "walk", walked)


def test_what_others_write_between_walk_and_ledger_is_no_finding(vault, monkeypatch):
    writer = Writer(vault)
    changed, forgotten = paths(vault)[:2]
    text = (vault / changed).read_text().replace("task", "TASK")

    def act():
        log(writer, episode("meanwhile"))
        writer.put(changed, text)
        writer.forget(forgotten, "out of date")

    between(monkeypatch, act)
    report = examine(vault)
    assert report.findings == []
    assert report.files == 10


def test_rows_that_come_after_the_ledger_was_read_are_read_too(vault, monkeypatch):
    scan, writer = ledger.scan, Writer(vault)

    def scanned(root, *noted):
        monkeypatch.setattr(ledger, "scan", scan)
        found = scan(root, *noted)
        writer.put(put, (vault / put).read_text().replace("task", "TASK"))
        return found

    put, edited = paths(vault)[:2]
    edit(vault, edited)  # so that all is looked at again
    monkeypatch.setattr(ledger, "scan", scanned)
    assert [(one.rule, one.path) for one in examine(vault).findings] == [("memory-modified", edited)]
    assert ledger.scan is scan


def test_beside_a_writer(vault):
    writer, stop = Writer(vault, durability="none"), threading.Event()

    def write():
        while not stop.is_set():
            log(writer, episode("again and again"))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        reports = [examine(vault) for _ in range(8)]
    finally:
        stop.set()
        thread.join()
    assert [report.findings for report in reports if report.count("error")] == []
    assert examine(vault).findings == []


# --- crashes and what cannot be read --------------------------------------------------------------------------------


def test_a_check_that_crashes_is_a_finding_and_hides_nothing(vault, monkeypatch, capsys):
    broken, edited = paths(vault)[:2]
    edit(vault, edited)
    judge = checks_file.judge

    def crash(path, blob):
        if path == broken:
            raise RuntimeError("the secret words of a memory")
        return judge(path, blob)

    monkeypatch.setattr(checks_file, "judge", crash)
    assert rules(examine(vault)) == ["doctor-check-crashed", "memory-modified"]
    assert main(["doctor", "--select", "memory-missing"]) == 1
    err = capsys.readouterr().err
    assert f"{broken}:1: doctor-check-crashed" in err
    assert "RuntimeError" in err
    assert "secret words" not in err


def test_a_crash_over_the_ledger_leaves_the_files_judged(vault, monkeypatch):
    write_raw(vault / "memories/notes.txt", "x")
    monkeypatch.setattr(checks_memory, "check_pairs", lambda *_: 1 / 0)
    assert rules(examine(vault)) == ["doctor-check-crashed", "layout-path-safe"]


@pytest.mark.parametrize("name", ["facts", "file"])
def test_what_cannot_be_read_is_told_and_not_called_missing(vault, monkeypatch, name):
    path = paths(vault)[0]
    wanted = os.path.basename(path) if name == "file" else name

    def refuse(given, *rest, **options):
        if os.path.basename(given) == wanted:
            raise PermissionError(13, "Permission denied", given)
        return opened(given, *rest, **options)

    opened = os.open
    monkeypatch.setattr(os, "open", refuse)
    (found,) = examine(vault).findings
    assert found.rule == "layout-file-regular"
    assert found.path == (path if name == "file" else "memories/facts")
    assert "Permission denied" in found.message


def test_an_unreadable_ledger_is_told(vault, monkeypatch):
    def refuse(given, *rest):
        if str(given).endswith("audit"):
            raise PermissionError(13, "Permission denied", given)
        return listed(given, *rest)

    listed = os.scandir
    monkeypatch.setattr(os, "scandir", refuse)
    assert [(one.rule, one.path) for one in examine(vault).findings] == [("layout-file-regular", "audit")]


def test_links_pipes_and_sockets_are_neither_followed_nor_opened(vault, tmp_path):
    write_raw(tmp_path / "outside.md", "x")
    first, second, third, fourth, fifth = paths(vault)
    for path in (first, second, third, fourth):
        (vault / path).unlink()
    (vault / first).symlink_to(tmp_path / "outside.md")
    os.mkfifo(vault / second)
    os.link(tmp_path / "outside.md", vault / third)
    os.chdir((vault / fourth).parent)
    with socket.socket(socket.AF_UNIX) as pipe:
        pipe.bind(os.path.basename(fourth))
    os.link(vault / fifth, tmp_path / "twin.md")
    found = {(one.path, one.rule) for one in examine(vault).findings}
    assert {(path, "layout-file-regular") for path in (first, second, third, fourth, fifth)} <= found
    assert {rule for path, rule in found if path in (first, second, fourth, fifth)} == {"layout-file-regular"}


def test_a_segment_with_a_second_name(vault, tmp_path):
    segment = next((vault / "audit").rglob("*.jsonl"))
    os.link(segment, tmp_path / "twin.jsonl")
    assert rules(examine(vault)) == ["layout-file-regular"]


def test_memories_as_a_link_is_one_finding(vault):
    (vault / "memories").rename(vault / "elsewhere")
    (vault / "memories").symlink_to("elsewhere")
    (found,) = examine(vault).findings
    assert (found.rule, found.path) == ("layout-file-regular", "memories")


def test_the_second_names_that_the_stage_holds_are_no_fault(root):
    path = log(Writer(root), episode())
    assert (root / path).stat().st_nlink == 2
    assert examine(root).findings == []


def test_a_folder_without_end_is_not_entered(vault):
    deep = vault / "memories" / "/".join("abcdefghijklmnopqrstuvwxyz")
    deep.mkdir(parents=True)
    assert rules(examine(vault)) == ["layout-path-safe"]


def test_names_that_differ_only_in_case(vault):
    for name in ("Twin.md", "twin.md"):
        write_raw(vault / "memories/facts/00/00" / name, fact("x")[1])
    if len(list((vault / "memories/facts/00/00").iterdir())) == 1:
        pytest.skip("this file system knows no case")
    assert rules(examine(vault)).count("layout-path-safe") == 1


@pytest.mark.parametrize("name", ["con.md", "LPT1.x.md", "a b.md", "a:b.md", "a\\b.md", f"{'a' * 121}.md", "a.MD"])
def test_names_that_some_system_cannot_hold(vault, name):
    write_raw(vault / "memories/facts/00/00" / name, fact("x")[1])
    assert rules(examine(vault)) == ["layout-path-safe"]


def test_ten_megabytes_are_not_read(vault, monkeypatch):
    path = paths(vault)[0]
    (vault / path).write_bytes(b"x" * 10 * 2**20)
    read = os.read
    monkeypatch.setattr(os, "read", lambda handle, size: read(handle, min(size, layout.MAX_FILE_BYTES + 1)))
    assert rules(examine(vault)) == ["layout-file-size"]


# --- the team's own rules -------------------------------------------------------------------------------------------

HEAD = "version: 1\nrules:\n"


def rule(name, law, severity="error"):
    return (
        f"  - id: {name}\n    severity: {severity}\n    scope: file\n    description: x\n    hint: do it\n    {law}\n"
    )


def test_a_team_adds_rules_with_no_python(vault, capsys):
    text = HEAD + rule("our-score", "schema: {kind: episode, frontmatter: {required: [quality_score]}}", "warning")
    write_raw(vault / "memory.invariants.yaml", text)
    assert main(["doctor"]) == 0
    err = capsys.readouterr().err
    assert "our-score warning: quality_score is missing" in err
    assert "  hint: do it" in err
    assert main(["doctor", "--ignore", "our-score"]) == 0
    assert "our-score" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ("{frontmatter: {properties: {kind: {const: facts}}}}", 5),
        ("{kind: facts, frontmatter: {properties: {kind: {const: decisions}}}}", 5),
        ("{kind: people, frontmatter: false}", None),
        ("{kind: episode, frontmatter: {properties: {quality_score: {type: integer}}}}", 4),
        ("{kind: episode, frontmatter: {properties: {duration_ms: {$ref: '#/$defs/d'}}, $defs: {d: {maximum: 9}}}}", 5),
        ("{kind: episode, frontmatter: {$ref: '#/$defs/none'}}", None),
        ("{kind: episode, frontmatter: {$schema: 'https://example.org/draft'}}", None),
    ],
)
def test_a_schema_rule_is_judged_for_its_kind(vault, schema, count):
    write_raw(vault / "memory.invariants.yaml", HEAD + rule("ours", f"schema: {schema}"))
    found = rules(examine(vault))
    assert found == (["contract-valid"] if count is None else ["ours"] * count)


def test_a_select_rule_and_a_check_rule_add_to_what_the_installed_ones_say(vault):
    path = paths(vault, "episodes")[0]
    edit(vault, path, b'"approach": "wrote it"', b'"approach": " "')
    text = HEAD + rule("ours-blank", "select: {kind: episode, at: /approach, keyword: pattern}", "info")
    text += rule("ours-altered", "check: memory-modified", "info")
    text += rule("ours-other", "select: {kind: other}", "info")
    write_raw(vault / "memory.invariants.yaml", text)
    report = examine(vault)
    assert sorted(rules(report)) == ["episode-text-blank", "memory-modified", "ours-altered", "ours-blank"]
    assert report.summary == {"errors": 2, "warnings": 0, "info": 2, "files": 10, "rows": 16}


def test_an_unusable_team_file_does_not_stop_the_rest(vault):
    write_raw(vault / "memory.invariants.yaml", b"\xff")
    edit(vault, paths(vault)[0])
    assert sorted(rules(examine(vault))) == ["contract-valid", "memory-modified"]
    for text in ("[" * 5000, "rules: [{1: 2, a: b}]", "rules:\n - {id: x, 1: 2}\n", "x" * 300_000):
        write_raw(vault / "memory.invariants.yaml", text)
        assert "contract-valid" in rules(examine(vault))


def test_the_installed_law_itself_weakens_nothing(vault):
    law = contract.read_law(contract.INVARIANTS_NAME).decode()
    write_raw(vault / "memory.invariants.yaml", law)
    assert examine(vault).findings == []
    write_raw(vault / "memory.invariants.yaml", law + rule("ours", "check: ledger-gap"))
    assert examine(vault).findings == []


def test_every_check_may_be_named_by_a_team(root):
    text = HEAD + "".join(rule(f"our-{number}", f"check: {name}") for number, name in enumerate(examination.CHECKS))
    write_raw(root / "memory.invariants.yaml", text)
    assert examine(root).findings == []


def test_an_empty_vault_is_clean(tmp_path):
    made = init(tmp_path / "v")
    assert examine(made.root).summary == {"errors": 0, "warnings": 0, "info": 0, "files": 0, "rows": 1}


def test_an_episode_deleted_by_hand_is_missing_though_the_stage_still_holds_it(tmp_memory):
    path = log(tmp_memory, episode("t"))
    (tmp_memory.path / path).unlink()
    found = examine(tmp_memory.path).findings
    assert [(one.rule, one.severity) for one in found] == [("memory-missing", "error")]
    assert "next write brings it back" in found[0].message
    log(tmp_memory, episode("u"))
    assert examine(tmp_memory.path).findings == []


def test_a_row_that_states_another_size_is_told_with_both(vault):
    read = ledger.scan(vault)
    path = paths(vault)[0]
    payload = read.memories[path].puts[0]["payload"]
    seen = {path: checks_memory.Seen(b"", payload["size"] + 1, payload["sha256"])}
    damaged, stage = checks_ledger.Damage({}, set(), {}), Stage(str(vault))
    (found,) = checks_memory.check_memories([path], seen, read, damaged, stage)
    assert found.rule == "memory-modified"
    assert found.message == f"the file takes {payload['size'] + 1} bytes; its row states {payload['size']}"
