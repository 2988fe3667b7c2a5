"""What a user can get wrong at the command line: a clear error, one line on what to do, nothing half written."""

import json
import os
import subprocess
import sys

import pytest

from cyberos.cli.main import main
from cyberos.core.episode import Episode, log
from cyberos.core.writer import Writer

GOOD = ["--task", "t", "--approach", "a", "--outcome", "success", "--duration-ms", "1"]


def cyberos(*arguments, cwd, stdin=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "cyberos", *arguments],
        cwd=cwd,
        env=os.environ | environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def everything(root):
    """Give every byte of the vault that is not private."""
    return {
        path.relative_to(root): path.read_bytes()
        for folder in ("memories", "audit")
        for path in (root / folder).rglob("*")
        if path.is_file()
    }


def with_(*changes):
    arguments = list(GOOD)
    for name, value in zip(changes[::2], changes[1::2], strict=True):
        if name in arguments:
            arguments[arguments.index(name) + 1] = value
        else:
            arguments += [name, value]
    return arguments


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (with_("--outcome", "kinda-worked"), 1, "episode-outcome-closed-enum"),
        (with_("--outcome", "failure"), 1, "episode-error-required"),
        (with_("--outcome", "failure", "--error", " \t"), 1, "episode-error-required"),
        (with_("--quality-score", "1.1"), 1, "episode-quality-score-range"),
        (with_("--quality-score", "-0.0001"), 1, "episode-quality-score-range"),
        (with_("--quality-score", "nan"), 1, "episode-quality-score-range"),
        (with_("--quality-score", "inf"), 1, "episode-quality-score-range"),
        (with_("--quality-score", "good"), 2, "--quality-score"),
        (with_("--duration-ms", "-1"), 1, "episode-duration-non-negative"),
        (with_("--duration-ms", "1.0"), 2, "--duration-ms"),
        (with_("--duration-ms", "1e3"), 2, "--duration-ms"),
        (with_("--token-cost", "-5"), 1, "episode-token-cost-non-negative"),
        (with_("--task", " \n"), 1, "episode-text-blank"),
        (with_("--approach", ""), 1, "episode-text-blank"),
        (with_("--evidence", "vibes"), 1, "episode-evidence-closed-enum"),
        (with_("--evidence", "test"), 1, "episode-evidence-ref"),
        (with_("--ended", "later"), 1, "episode-ended-closed-enum"),
        (with_("--occurred-at", "2026-02-30T00:00:00Z"), 1, "episode-occurred-at"),
        (with_("--notes", "a\rb"), 1, "text-encoding"),
        (with_("--notes", "a\x01b"), 1, "text-encoding"),
        (with_("--actor", "Not An Actor"), 1, "actor"),
        (with_("--task", "x" * 100_000), 1, "layout-file-size"),
        (GOOD[2:], 2, "--task"),
        ([*GOOD, "--no-such-flag"], 2, "--no-such-flag"),
    ],
)
def test_a_bad_episode_is_refused_with_its_rule(root, arguments, code, says):
    before = everything(root)
    done = cyberos("episode", "log", *arguments, cwd=root)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert everything(root) == before


ROWS = {
    "score as text": (
        '{"task":"t","approach":"a","outcome":"success","duration_ms":1,"quality_score":"0.5"}',
        "episode-quality-score-range",
    ),
    "score true": (
        '{"task":"t","approach":"a","outcome":"success","duration_ms":1,"quality_score":true}',
        "episode-quality-score-range",
    ),
    "score NaN": (
        '{"task":"t","approach":"a","outcome":"success","duration_ms":1,"quality_score":NaN}',
        "frontmatter-parse",
    ),
    "duration true": (
        '{"task":"t","approach":"a","outcome":"success","duration_ms":true}',
        "episode-duration-non-negative",
    ),
    "duration 1.0": (
        '{"task":"t","approach":"a","outcome":"success","duration_ms":1.0}',
        "episode-duration-non-negative",
    ),
    "duration 1e3": (
        '{"task":"t","approach":"a","outcome":"success","duration_ms":1e3}',
        "episode-duration-non-negative",
    ),
    "no task": ('{"approach":"a","outcome":"success","duration_ms":1}', "episode-frontmatter-required-field"),
    "duplicate key": ('{"task":"t","task":"u","approach":"a","outcome":"success","duration_ms":1}', "stands twice"),
    "unknown key": (
        '{"task":"t","approach":"a","outcome":"success","duration_ms":1,"qualty_score":1}',
        "quality_score",
    ),
    "lone surrogate": ('{"task":"\\ud800","approach":"a","outcome":"success","duration_ms":1}', "text-encoding"),
    "NUL": ('{"task":"a\\u0000b","approach":"a","outcome":"success","duration_ms":1}', "text-encoding"),
    "not an object": ("[1, 2]", "frontmatter-parse"),
    "not JSON": ("nonsense", "frontmatter-parse"),
    "another kind": (
        '{"kind":"facts","task":"t","approach":"a","outcome":"success","duration_ms":1}',
        "memory-kind-closed-enum",
    ),
    "too deep": ('{"task":' + "[" * 100_000 + "]" * 100_000 + "}", "frontmatter-parse"),
    "huge integer": (
        '{"task":"t","approach":"a","outcome":"success","duration_ms":' + "9" * 50_000 + "}",
        "frontmatter-parse",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_one_bad_row_stops_an_import_before_the_first_byte(root, name):
    row, says = ROWS[name]
    good = '{"task":"t","approach":"a","outcome":"success","duration_ms":1}'
    (root / "rows.jsonl").write_text(f"{good}\n\n{row}\n{good}\n", encoding="utf-8")
    before = everything(root)
    done = cyberos("episode", "log", "--from-json", "rows.jsonl", cwd=root)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "rows.jsonl:3: " in done.stderr
    assert says in done.stderr
    assert everything(root) == before
    done = cyberos("episode", "log", "--from-json", "rows.jsonl", "--skip-bad", "--json", cwd=root)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"logged": 2, "skipped": 1, "seq": 5}


def test_an_array_and_stdin_are_read_too(root):
    rows = [{"task": f"t{n}", "approach": "a", "outcome": "success", "duration_ms": n} for n in range(3)]
    done = cyberos("episode", "log", "--from-json", "-", cwd=root, stdin=json.dumps(rows, indent=1))
    assert done.stdout == "logged 3 episodes\n"


@pytest.mark.parametrize("blob", [b"\xff\xfe{\x00}\x00", b'{"task": "\xff"}'])
def test_rows_that_are_not_utf8(root, blob):
    (root / "rows.jsonl").write_bytes(blob)
    done = cyberos("episode", "log", "--from-json", "rows.jsonl", cwd=root)
    assert done.returncode == 1
    assert "text-encoding" in done.stderr


def test_a_planted_credential_is_refused_and_never_shown(root):
    token = "ghp_" + "a1B2c3D4e5" * 4
    before = everything(root)
    for arguments in (with_("--notes", f"used {token[:40]}"), with_("--task", token[:40]), with_("--tag", token[:40])):
        done = cyberos("episode", "log", *arguments, cwd=root)
        assert done.returncode == 1
        assert "github-token" in done.stderr
        assert token[:40] not in done.stdout + done.stderr
    assert everything(root) == before
    done = cyberos(
        "episode", "log", *with_("--notes", f"used {token[:40]}", "--allow-secret", "github-token"), cwd=root
    )
    assert done.returncode == 0, done.stderr


def test_no_vault_says_how_to_make_one(tmp_path):
    for arguments in (["episode", "log", *GOOD], ["recall-similar", "x"], ["doctor"], ["list"], ["config"]):
        done = cyberos(*arguments, cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert "cyberos init" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_vault_on_another_branch_is_named(repo):
    folder = repo.root
    for arguments in (["switch", "-q", "--orphan", "bare"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    subprocess.run(["git", "clean", "-fdxq"], cwd=folder, check=True)
    done = cyberos("list", cwd=folder)
    assert done.returncode == 2
    assert "branch" in done.stderr


def test_a_held_lock_is_waited_for_then_named(root):
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import time\nfrom cyberos.core.writer import Writer\nwith Writer({str(root)!r}).transaction():\n print('held', flush=True)\n time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        done = cyberos("episode", "log", *GOOD, cwd=root, CYBEROS_LOCK_WAIT="0.2")
        assert done.returncode == 75
        assert str(holder.pid) in done.stderr
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert cyberos("episode", "log", *GOOD, cwd=root).returncode == 0


@pytest.mark.parametrize(
    "setting", [{"CYBEROS_DURABILITY": "most"}, {"CYBEROS_WEIGHTS": "1,1,1"}, {"CYBEROS_MIN_RELEVANCE": "2"}]
)
def test_a_wrong_setting_is_named(root, setting):
    done = cyberos("episode", "log", *GOOD, cwd=root, **setting)
    assert done.returncode == 1
    assert next(iter(setting)) in done.stderr


def test_output_into_head_is_quiet(root):
    rows = "\n".join(
        json.dumps({"task": f"task {n}", "approach": "a", "outcome": "success", "duration_ms": n}) for n in range(3000)
    )
    assert cyberos("episode", "log", "--from-json", "-", cwd=root, stdin=rows).returncode == 0
    command = f"{sys.executable} -m cyberos list --limit 3000 | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_interrupting_an_import_writes_nothing(root, monkeypatch, capsys):
    row = '{"task":"t","approach":"a","outcome":"success","duration_ms":1}'
    (root / "rows.jsonl").write_text(f"{row}\n" * 3, encoding="utf-8")
    before = everything(root)
    logged = []

    def interrupted(writer, one, actor):
        if logged:
            raise KeyboardInterrupt
        logged.append(log(writer, one, actor=actor))

    monkeypatch.setattr("cyberos.cli.episode.log_episode", interrupted)
    assert main(["--store", str(root), "episode", "log", "--from-json", str(root / "rows.jsonl")]) == 130
    assert len(logged) == 1
    assert "interrupted" in capsys.readouterr().err
    assert everything(root) == before


def test_no_color_and_dumb_terminals_get_no_escapes(root):
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        done = cyberos("--help", cwd=root, **environment)
        assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from-json", "rows.jsonl", "--task", "t"], "--task"),
        (["--skip-bad", *GOOD], "--from-json"),
        ([*GOOD, "--allow-secret", "no-such-kind"], "github-token"),
    ],
)
def test_options_that_would_be_passed_over_are_refused(root, arguments, says):
    (root / "rows.jsonl").write_text("{}\n", encoding="utf-8")
    done = cyberos("episode", "log", *arguments, cwd=root)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_closed_output_loses_nothing_and_is_no_fault(root):
    command = f"{sys.executable} -m cyberos episode log --task t --approach a --outcome success --duration-ms 1 >&-"
    done = subprocess.run(["bash", "-c", command], cwd=root, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((root / "memories" / "episodes").rglob("*.md"))) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
def test_a_full_device_for_the_output_is_an_ordinary_error(root):
    command = f"{sys.executable} -m cyberos config >/dev/full"
    done = subprocess.run(["bash", "-c", command], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_gone_is_named(tmp_path):
    command = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -m cyberos list"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "the current folder is gone" in done.stderr


def test_a_settings_file_that_is_a_folder_is_an_ordinary_error(root):
    (root / "cyberos.toml").mkdir()
    assert cyberos("config", cwd=root).returncode == 0
    (root / "cyberos.toml").rmdir()
    (root / "cyberos.toml").write_text("k = [", encoding="utf-8")
    done = cyberos("config", cwd=root)
    assert done.returncode == 1
    assert "not TOML" in done.stderr


def test_recall_and_list_say_that_the_ledger_is_damaged(root):
    for number in range(3):
        log(Writer(root), Episode(task=f"paint the fence {number}", approach="a", outcome="success", duration_ms=1))
    segment = max((root / "audit").rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    rows = segment.read_bytes().splitlines(keepends=True)
    assert json.loads(cyberos("recall-similar", "paint the fence", "--json", cwd=root).stdout)["matches"]
    segment.write_bytes(b"".join(rows[:2] + rows[3:]))
    answer = json.loads(cyberos("recall-similar", "paint the fence", "--json", cwd=root).stdout)
    assert "the ledger is damaged at audit/" in answer["degraded"]
    assert "cyberos doctor" in answer["degraded"]
    assert "the ledger is damaged" in cyberos("list", cwd=root).stderr
    segment.write_bytes(b"".join(rows))
    answer = json.loads(cyberos("recall-similar", "paint the fence", "--json", cwd=root).stdout)
    assert answer["degraded"] is None
    assert len(answer["matches"]) == 3


def test_a_named_store_is_not_looked_for_above(root):
    done = cyberos("--store", str(root / "memories"), "list", cwd=root)
    assert done.returncode == 2
    assert "or above it" not in done.stderr


def test_an_argument_that_is_not_utf8_is_called_so(root):
    done = subprocess.run(
        [sys.executable, "-m", "cyberos", "episode", "log", *GOOD, "--notes", b"caf\xe9"], cwd=root, capture_output=True
    )
    assert done.returncode == 1
    assert b"a byte that is not UTF-8 (0xE9)" in done.stderr
