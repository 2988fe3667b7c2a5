"""`cyberos episode record`: from a transcript to an episode in the vault, and the guards on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cyberos.cli.main import cli
from cyberos.core.reader import recall
from cyberos.record.formats import READERS, NotLines, UnknownFormat
from cyberos.record.recording import Contradicted, NothingToRecord

REAL = Path(__file__).parents[1] / "record" / "transcripts" / "real"
TOKEN = "ghp_" + "a1B2" * 9


def record(root: Path, *arguments: str, stdin: str | None = None):
    return CliRunner().invoke(
        cli, ["--store", str(root), "episode", "record", *arguments], input=stdin, catch_exceptions=False, obj=None,
        standalone_mode=False,
    )  # fmt: skip


def failing(root: Path, *arguments: str, error: type[Exception]) -> str:
    with pytest.raises(error) as caught:
        record(root, *arguments)
    assert list(root.glob("memories/episodes/*/*/*.md")) == []
    return f"{caught.value} {getattr(caught.value, 'hint', '')}"


def messages(tmp_path: Path, *turns: tuple[str, str], name: str = "run.json") -> str:
    file = tmp_path / name
    file.write_text(json.dumps([{"role": role, "content": text} for role, text in turns]))
    return str(file)


def frontmatter(root: Path) -> list[dict]:
    found = [file.read_text() for file in sorted(root.glob("memories/episodes/*/*/*.md"))]
    return [json.loads(text.split("---")[1]) for text in found]


@pytest.mark.parametrize("file", sorted(REAL.iterdir()), ids=lambda file: file.name)
def test_every_real_transcript_becomes_a_verified_success(root, file):
    done = record(root, str(file), "--no-llm", "--task", "Fix add in calc.py", "--scope", "calc", "--tag", "a")
    (values,) = frontmatter(root)
    assert done.stdout.strip() == next(root.glob("memories/episodes/*/*/*.md")).relative_to(root).as_posix()
    assert (values["outcome"], values["evidence"], values["scope"], values["tags"]) == (
        "success",
        "test",
        "calc",
        ["a"],
    )
    assert values["evidence_ref"].startswith("python3 -m unittest -q -> exit 0 (")
    assert "sha256:" in values["transcript_ref"]
    assert "lesson" not in values
    assert "python3 -m unittest -q (exit 1); python3" in values["approach"] or "ran" in values["approach"]


def test_a_dry_run_shows_its_reasoning_and_needs_no_vault(tmp_path):
    done = record(tmp_path / "nowhere", str(REAL / "claude-code.jsonl"), "--dry-run", "--no-llm", "--json")
    found = json.loads(done.stdout)
    assert list(found)[:8] == [
        "label",
        "outcome",
        "evidence",
        "evidence_ref",
        "ended",
        "duration_ms",
        "token_cost",
        "why",
    ]
    assert (found["label"], found["task"], found["path"]) == (
        "success",
        "Fix add in calc.py so that its tests pass",
        None,
    )
    assert (found["duration_ms"], found["token_cost"]) == (946, 710)


def test_a_recorded_failure_is_found_before_a_similar_task(root, tmp_path):
    file = tmp_path / "run.json"
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command": "pytest -q"}'}}
    turns = [{"role": "user", "content": "Migrate the billing schema"}, {"role": "assistant", "tool_calls": [call]},
             {"role": "tool", "tool_call_id": "c", "content": "Exit code: 1\n1 failed"}, {"role": "assistant", "content": "Done!"}]  # fmt: skip
    file.write_text(json.dumps(turns))
    record(root, str(file), "--no-llm")
    (hit,) = recall(root, "migrate the billing schema", min_relevance=0.0, memory_kind="episode")
    assert hit.frontmatter["outcome"] == "failure"
    assert hit.frontmatter["error"].startswith("pytest -q -> exit 1")


def test_secrets_are_redacted_and_said_so(root, tmp_path):
    file = messages(tmp_path, ("user", f"Use {TOKEN} to push"), ("assistant", "Pushed."))
    done = record(root, file, "--no-llm", "--json")
    assert "redacted a credential (github-token) in task" in done.stderr
    assert json.loads(done.stdout)["redacted"] == ["github-token"]
    assert TOKEN not in done.stdout + done.stderr + "".join(json.dumps(values) for values in frontmatter(root))


def test_escape_sequences_and_control_characters_do_not_stop_it(root, tmp_path):
    record(root, messages(tmp_path, ("user", "Fix \x1b[31mit\x1b[0m \x00\x07now"), ("assistant", "Done.")), "--no-llm")
    assert frontmatter(root)[0]["task"] == "Fix it now"


def test_fewer_than_two_turns_are_nothing(root, tmp_path):
    file = messages(tmp_path, ("user", "hi"))
    assert f"{file}: fewer than two turns, so nothing was stored" in failing(
        root, file, "--no-llm", error=NothingToRecord
    )


def test_a_stream_needs_its_task(root):
    text = failing(root, str(REAL / "codex-exec.jsonl"), "--no-llm", error=NothingToRecord)
    assert "codex-exec.jsonl" in text
    assert "--task" in text


def test_an_unknown_format_names_the_known_ones(root, tmp_path):
    file = tmp_path / "x.txt"
    file.write_text("hello")
    assert all(name in failing(root, str(file), error=UnknownFormat) for name in READERS)


def test_a_format_may_be_forced(root):
    failing(root, str(REAL / "codex.jsonl"), "--format", "gemini", error=UnknownFormat)
    record(root, str(REAL / "codex.jsonl"), "--format", "codex", "--no-llm")
    assert len(frontmatter(root)) == 1


def test_stdin_is_read(root):
    record(root, "-", "--no-llm", stdin=(REAL / "claude-code.jsonl").read_text())
    assert frontmatter(root)[0]["transcript_ref"].startswith("stdin sha256:")


def test_an_outcome_by_hand_is_a_word_and_a_verified_one_stands(root, tmp_path):
    real = str(REAL / "claude-code.jsonl")
    assert "the transcript verifies success" in failing(
        root, real, "--no-llm", "--outcome", "failure", error=Contradicted
    )
    file = messages(tmp_path, ("user", "Fix it"), ("assistant", "Done."))
    done = record(root, file, "--no-llm", "--dry-run", "--json", "--outcome", "success")
    assert json.loads(done.stdout)["label"] == "claimed_success"
    done = record(
        root, real, "--no-llm", "--json", "--outcome", "failure", "--evidence", "user", "--evidence-ref", "Ada looked"
    )
    found = json.loads(done.stdout)
    assert (found["label"], found["evidence"], found["error"]) == ("failure", "user", "Ada looked")


def test_options_that_would_be_passed_over_are_refused(root):
    import click

    real = str(REAL / "claude-code.jsonl")
    failing(root, real, "--evidence", "test", error=click.UsageError)
    failing(root, real, "--outcome", "success", "--evidence-ref", "x", error=click.UsageError)
    failing(root, "nowhere.jsonl", error=click.UsageError)


def test_split_makes_an_episode_of_each_task(root, tmp_path):
    file = messages(
        tmp_path, ("user", "Fix the login page"), ("assistant", "Done."), ("user", "Perfect, it works. Now add the docs"),
        ("assistant", "Written."), ("user", "thanks"),
    )  # fmt: skip
    found = json.loads(record(root, file, "--no-llm", "--split", "--json").stdout)["items"]
    assert [(item["task"], item["label"]) for item in found] == [
        ("Fix the login page", "success"), ("Perfect, it works. Now add the docs", "claimed_success"),
    ]  # fmt: skip
    assert len(frontmatter(root)) == 2
    whole = json.loads(record(root, file, "--no-llm", "--dry-run", "--json").stdout)
    assert whole["task"] == "Fix the login page"


def test_each_run_of_a_file_is_an_episode(root, tmp_path):
    file = tmp_path / "runs.jsonl"
    turns = [{"role": "user", "content": "Fix it"}, {"role": "assistant", "content": "Done."}]
    file.write_text("".join(json.dumps({"messages": part}) + "\n" for part in (turns, turns[:1], turns)))
    done = record(root, str(file), "--no-llm", "--json")
    assert len(json.loads(done.stdout)["items"]) == 2
    assert "passed over run ?: fewer than two turns" in done.stderr


def test_a_redaction_is_a_row_of_the_ledger(root, tmp_path):
    record(root, messages(tmp_path, ("user", f"Use {TOKEN} to push"), ("assistant", "Pushed.")), "--no-llm")
    rows = [json.loads(line) for file in root.glob("audit/*/*/*.jsonl") for line in file.read_text().splitlines()]
    assert "secret.redacted" in [row["kind"] for row in rows]


def grown(tmp_path: Path) -> tuple[Path, int]:
    """Give a real session that was recorded up to a line, and then got a turn of a user and an answer."""
    file = tmp_path / "session.jsonl"
    blob = (REAL / "claude-code.jsonl").read_bytes()
    record = json.loads(blob.splitlines()[2])
    asked = record | {"uuid": "u9", "message": {"role": "user", "content": "Now write the docs"}}
    answered = record | {
        "type": "assistant",
        "uuid": "u10",
        "message": {"id": "m9", "content": [{"type": "text", "text": "Written."}]},
    }
    file.write_bytes(blob + "".join(json.dumps(each) + "\n" for each in (asked, answered)).encode())
    return file, len(blob)


def test_only_what_came_after_the_skipped_bytes_is_recorded(root, tmp_path):
    file, size = grown(tmp_path)
    lines = file.read_bytes().count(b"\n")
    found = json.loads(record(root, str(file), "--no-llm", "--json", "--skip-bytes", str(size)).stdout)
    assert (found["task"], found["turns"], found["format"], found["label"]) == (
        "Now write the docs", 2, "claude-code", "claimed_success",
    )  # fmt: skip
    assert found["transcript_ref"].startswith(str(file))
    assert found["session"] == "00000000-0000-4000-8000-000000000001"
    # a line that was half-written when the first part was recorded belongs to the second
    again = json.loads(record(root, str(file), "--no-llm", "--json", "--skip-bytes", str(size + 40)).stdout)
    assert again["turns"] == 2
    last = file.read_bytes().splitlines(keepends=True)[lines - 1]
    text = failing_after(root, file, file.stat().st_size - len(last), error=NothingToRecord)
    assert "fewer than two turns" in text


def failing_after(root: Path, file: Path, skip: int, error: type[Exception]) -> str:
    before = len(frontmatter(root))
    with pytest.raises(error) as caught:
        record(root, str(file), "--no-llm", "--skip-bytes", str(skip))
    assert len(frontmatter(root)) == before
    return f"{caught.value} {getattr(caught.value, 'hint', '')}"


def test_a_part_without_a_turn_of_the_user_goes_on_with_the_task_before(root, tmp_path):
    file, _ = grown(tmp_path)
    blob = (REAL / "claude-code.jsonl").read_bytes()
    skip = blob.index(b"\n", blob.index(b'"tool_result"')) + 1
    file.write_bytes(blob)
    found = json.loads(record(root, str(file), "--no-llm", "--json", "--skip-bytes", str(skip)).stdout)
    assert found["task"] == "Fix add in calc.py so that its tests pass"
    assert found["evidence_ref"].startswith("python3 -m unittest -q -> exit 0 (line ")
    whole = json.loads(record(root, str(file), "--no-llm", "--json").stdout)
    assert found["evidence_ref"] == whole["evidence_ref"]


@pytest.mark.parametrize("name", ["codex.jsonl", "gemini.jsonl", "claude-code.jsonl", "opencode.jsonl"])
def test_nothing_new_is_nothing(root, name):
    text = failing_after(root, REAL / name, (REAL / name).stat().st_size, error=NothingToRecord)
    assert "nothing came after" in text


@pytest.mark.parametrize("name", ["opencode-export.json", "mini-swe-agent.traj.json"])
def test_a_document_has_no_part_to_skip(root, name):
    assert "leave --skip-bytes out" in failing_after(root, REAL / name, 10, error=NotLines)
