"""`cyberos episode record` with a model behind an endpoint: the whole way, from the environment to the vault.

The endpoint is a real server on loopback that misbehaves; but for the slow one, the command is a real process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from cyberos.cli.main import cli
from cyberos.record import endpoint as endpoints
from record.endpoint_server import Server, completion, http, said

KEY = "local-key-0123456789"
TASK = "Ship the login form"
GOOD = "TASK: {task}\nAPPROACH: edited form.py\nOUTCOME: {outcome}\nLESSON: {lesson}"
LESSON = "CI has no redis; use the fakeredis fixture"
AT_ONCE = "Retry-After: 0"


def answer(outcome: str = "success", lesson: str = "NONE", task: str = TASK) -> bytes:
    return said(GOOD.format(task=task, outcome=outcome, lesson=lesson))


@pytest.fixture
def transcript(tmp_path):
    """Give a writer of a transcript whose last command is a test with this exit code, or none."""

    def written(exit_code: int | None = None) -> str:
        turns = [{"role": "user", "content": TASK}, {"role": "assistant", "content": f"I learnt that {LESSON}."}]
        if exit_code is not None:
            call = {
                "id": "c",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command": "pytest -q"}'},
            }
            turns += [{"role": "assistant", "tool_calls": [call]},
                      {"role": "tool", "tool_call_id": "c", "content": f"Exit code: {exit_code}"},
                      {"role": "assistant", "content": "Done!"}]  # fmt: skip
        file = tmp_path / "run.json"
        file.write_text(json.dumps(turns))
        return str(file)

    return written


def record(root, file: str, url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the verb as a process; the key must stand nowhere, neither in what it prints nor in the vault."""
    done = subprocess.run(
        [sys.executable, "-m", "cyberos", "--store", str(root), "episode", "record", file, *arguments],
        env=os.environ | {"CYBEROS_LLM_URL": url, "CYBEROS_LLM_MODEL": "m", "CYBEROS_LLM_KEY": KEY},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    stored = [path.read_text() for folder in ("memories", "audit") for path in (root / folder).rglob("*.*l")]
    stored += [path.read_text() for path in root.glob("memories/episodes/*/*/*.md")]
    assert KEY not in done.stdout + done.stderr + "".join(stored)
    assert "Traceback" not in done.stderr
    return done


def episodes(root) -> list[dict]:
    return [json.loads(file.read_text().split("---")[1]) for file in root.glob("memories/episodes/*/*/*.md")]


def test_a_claim_is_a_claim_and_the_key_goes_to_the_endpoint_alone(root, transcript):
    with Server(answer(lesson=LESSON)) as server:
        done = record(root, transcript(), server.url, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["label"], found["lesson"]) == (0, "claimed_success", LESSON)
    assert f"Authorization: Bearer {KEY}" in server.requests[0][0]
    assert server.requests[0][1]["model"] == "m"
    (values,) = episodes(root)
    assert (values["task"], values["approach"], values["lesson"]) == (TASK, "edited form.py", LESSON)


@pytest.mark.parametrize(("exit_code", "told", "label"), [(1, "success", "failure"), (0, "failure", "success")])
def test_what_was_verified_beats_the_model_s_word(root, transcript, exit_code, told, label):
    with Server(answer(outcome=told)) as server:
        found = json.loads(record(root, transcript(exit_code), server.url, "--json").stdout)
    assert (found["label"], found["evidence"]) == (label, "test")
    assert f"the model says {told}; what the transcript shows stands above it" in found["why"]
    assert episodes(root)[0]["outcome"] == label


@pytest.mark.parametrize("lesson", ["NONE", TASK, "Ship the login form!", "Open port 9999 on db7 first"])
def test_what_is_no_lesson_is_stored_empty(root, transcript, lesson):
    with Server(answer(lesson=lesson)) as server:
        assert record(root, transcript(), server.url).returncode == 0
    assert "lesson" not in episodes(root)[0]


def test_an_endpoint_that_recovers_is_asked_again(root, transcript):
    with Server(http(500, "boom", AT_ONCE), http(429, "", AT_ONCE), answer()) as server:
        assert record(root, transcript(), server.url).returncode == 0
    assert (len(server.requests), len(episodes(root))) == (3, 1)


@pytest.mark.parametrize(
    "bad",
    [
        http(500, "boom", AT_ONCE), http(401, '{"error": {"message": "who are you"}}'), http(200, "<html>"),
        http(200, ""), http(200, "{}"), said(""), said("I cannot help with that."), said("LESSON: none"),
        answer(task=""), http(200, completion("x"))[:-4],
    ],
    ids=["500", "401", "html", "no body", "no choices", "empty", "prose", "no task", "blank task", "cut off"],
)  # fmt: skip
def test_no_answer_is_no_episode_and_one_says_why(root, transcript, bad):
    file = transcript()
    with Server(bad) as server:
        done = record(root, file, server.url, "--json")
    assert (done.returncode, done.stdout, episodes(root)) == (1, "", [])
    assert "hint: " in done.stderr
    assert "--no-llm" in done.stderr
    # what failed may be done without the model: the transcript is as it was
    assert record(root, file, server.url, "--no-llm").returncode == 0


def test_a_slow_endpoint_is_left_at_its_deadline(root, transcript, monkeypatch):
    file = transcript()
    with Server(lambda taken: time.sleep(1)) as server:
        slow = endpoints.Endpoint(server.url, "m", KEY, timeout_s=0.2)
        monkeypatch.setattr(endpoints, "configured", lambda: slow)
        monkeypatch.setattr(endpoints, "TRIES", 1)
        with pytest.raises(endpoints.EndpointFailed, match="no whole answer within 0.2 s") as caught:
            CliRunner().invoke(
                cli, ["--store", str(root), "episode", "record", file], catch_exceptions=False, standalone_mode=False
            )
    assert KEY not in str(caught.value)
    assert episodes(root) == []


@pytest.mark.parametrize(
    ("url", "told"), [("ftp://x", "http://"), ("http://me:pw@x/v1", "CYBEROS_LLM_KEY"), ("", "go together")]
)
def test_half_a_configuration_is_refused(root, transcript, url, told):
    done = record(root, transcript(), url)
    assert (done.returncode, episodes(root)) == (1, [])
    assert told in done.stderr
    assert "pw" not in done.stderr
