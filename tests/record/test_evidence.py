"""How a run went: the last check after the last edit, how the turn ended, what the user said, and the agent's word."""

from __future__ import annotations

import pytest

from cyberos.core.labels import label
from cyberos.record import evidence, words
from cyberos.record.transcript import Command, Edit, Stop, Turn


def user(text: str = "Fix it") -> Turn:
    return Turn("user", text, line=1)


def agent(text: str = "Done.") -> Turn:
    return Turn("assistant", text, line=9)


def run(text: str, code: int | None, output: str = "") -> Command:
    return Command(text, exit_code=code, output=output, state="done", line=5)


EDIT = Edit("a.py", line=3)


def weighed(*steps) -> tuple[str, str, str]:
    found = evidence.weigh([user(), *steps])
    values = {"outcome": found.outcome, "evidence": found.evidence, "ended": found.ended}
    assert (found.error is None) == (found.outcome == "success")
    assert found.evidence not in ("test", "exit_code", "user", "judge") or found.evidence_ref
    assert found.why
    return label(values), found.outcome, found.evidence


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([EDIT, run("pytest", 0), agent()], ("success", "success", "test")),
        ([EDIT, run("ruff check .", 0), agent()], ("success", "success", "exit_code")),
        ([EDIT, run("make", 0), agent()], ("success", "success", "exit_code")),
        ([run("pytest", 1), EDIT, run("pytest", 0), agent()], ("success", "success", "test")),
        ([EDIT, run("pytest", 1), agent("All tests pass.")], ("failure", "failure", "test")),
        ([EDIT, run("pytest", 0), EDIT, agent()], ("claimed_success", "success", "agent")),
        ([EDIT, run("pytest", 0), run("sed -i s/a/b/ a.py", 0), agent()], ("claimed_success", "success", "agent")),
        ([EDIT, run("pytest", 0), run("git stash", 0), agent()], ("claimed_success", "success", "agent")),
        ([EDIT, run("pytest", 1), EDIT, agent()], ("claimed_success", "success", "agent")),
        ([EDIT, run("pytest | tail", 0), agent()], ("claimed_success", "success", "agent")),
        ([EDIT, run("pytest || true", 0), agent()], ("claimed_success", "success", "agent")),
        ([EDIT, run("pytest", None, "3 passed"), agent()], ("claimed_success", "success", "agent")),
        ([EDIT, run("pytest | tail", 0, "1 failed in 0.1s"), agent()], ("failure", "failure", "test")),
        ([EDIT, run("pytest", 1), run("pytest", 0), agent()], ("success", "success", "test")),
        ([EDIT, run("pytest -q tests", 1), run("pytest -q tests/test_a.py", 0), agent()], ("partial", "partial", "test")),
        ([EDIT, run("pytest tests/test_a.py", 1), run("pytest", 0), agent()], ("success", "success", "test")),
        ([EDIT, run("pytest", 1), run("ruff check .", 0), agent()], ("failure", "failure", "test")),
        ([EDIT, run("ruff check .", 1), run("pytest", 0), agent()], ("partial", "partial", "test")),
        ([EDIT, run("pytest", 0), run("ruff check .", 1), agent()], ("failure", "failure", "exit_code")),
        ([EDIT, run("pytest", 0), run("pytest | tail", 0), agent()], ("claimed_success", "success", "agent")),
        ([EDIT, run("pytest", 0), run("cat a.py", 1), agent()], ("success", "success", "test")),
        ([run("ruff check --fix .", 0), agent()], ("success", "success", "exit_code")),
        ([run("pytest", 0), run("ruff check --fix .", 0), agent()], ("success", "success", "exit_code")),
        ([run("pytest", 0), Edit("(whatever a sub-agent changed)"), agent()], ("claimed_success", "success", "agent")),
        ([agent()], ("claimed_success", "success", "agent")),
        ([EDIT], ("unknown", "partial", "none")),
        ([agent("I could not fix it.")], ("failure", "failure", "agent")),
        ([agent("Which of the two do you mean?")], ("unknown", "partial", "agent")),
        ([EDIT, run("pytest", 0), agent(), Stop("interrupted", "[Request interrupted by user]", line=9)], ("abandoned", "failure", "none")),
        ([agent(), Stop("interrupted", "x"), user("never mind")], ("abandoned", "failure", "none")),
        ([agent(), Stop("interrupted", "x"), user("go on"), agent(), EDIT, run("pytest", 0), agent()], ("success", "success", "test")),
        ([EDIT, run("pytest", 0), Stop("failed", "turn.failed: no")], ("failure", "failure", "none")),
        ([EDIT, Stop("failed", "error: reconnecting"), agent()], ("claimed_success", "success", "agent")),
        ([EDIT, Stop("limit", "result error_max_turns")], ("abandoned", "failure", "none")),
        ([EDIT, agent(), Stop("claimed", "exit_status submitted")], ("claimed_success", "success", "agent")),
        ([EDIT, agent(), user("Perfect, it works now")], ("success", "success", "user")),
        ([EDIT, agent(), user("Thanks!")], ("claimed_success", "success", "agent")),
        ([EDIT, agent(), user("No, the tests still fail")], ("failure", "failure", "user")),
        ([EDIT, run("pytest", 0), agent(), user("that's wrong")], ("failure", "failure", "user")),
        ([EDIT, run("pytest", 1), agent(), user("Perfect, it works now")], ("failure", "failure", "test")),
        ([EDIT, run("pytest", 0), agent(), user("Perfect"), agent("You are welcome.")], ("success", "success", "test")),
        ([EDIT, agent(), user("still broken"), EDIT, agent()], ("claimed_success", "success", "agent")),
        ([EDIT, agent(), Turn("verifier", "Stop hook feedback: tests are red")], ("failure", "failure", "none")),
    ],
)  # fmt: skip
def test_a_verdict(steps, expected):
    assert weighed(*steps) == expected


def test_a_verdict_says_what_where_and_why():
    found = evidence.weigh(
        [user(), EDIT, run("cd x && pytest -q", 1, "\x1b[31mE assert 1 == 2\x1b[0m\n\n1 failed in 0.1s"), agent()]
    )
    assert found.evidence_ref == "cd x && pytest -q -> exit 1 (line 5)"
    assert found.error == "cd x && pytest -q -> exit 1\nE assert 1 == 2\n1 failed in 0.1s"
    assert found.why == [
        "last edit: a.py (line 3)", "cd x && pytest -q -> exit 1 (line 5): the last test after the last edit failed (exit 1)",
    ]  # fmt: skip


def test_what_was_not_counted_is_told():
    found = evidence.weigh([user(), EDIT, run("pytest | tail -3", 0), agent()])
    assert any("not counted: the exit code is that of `tail`" in reason for reason in found.why)
    stale = evidence.weigh([user(), run("pytest", 0), EDIT, agent()])
    assert stale.why[0] == "pytest -> exit 0 (line 5), then an edit came, a.py (line 3), so it no longer counts"


@pytest.mark.parametrize(
    "text",
    ["Perfect", "perfect, thanks!", "It works now.", "works", "Works great, thank you", "LGTM", "lgtm, ship it", "Great job!",
     "Yes, that works", "Thanks, that fixed it", "That did the trick!", "All tests pass now", "ok looks good to me",
     "Awesome. Now add the docs", "Fixed!", "The build passes", "That’s exactly what I wanted"],
)  # fmt: skip
def test_a_user_who_is_content(text):
    assert words.verdict(text) == "good"


@pytest.mark.parametrize(
    "text",
    ["No, the tests still fail", "nope", "that's wrong", "It doesn't work", "still broken", "This is not what I asked for",
     "You broke the login", "Revert that", "it still crashes on start", "Thanks, but it doesn't work", "Perfect. But the build fails",
     "the tests are failing now", "same error", "Great, now it crashes", "That isn't right", "No. It didn’t help"],
)  # fmt: skip
def test_a_user_who_is_not_content(text):
    assert words.verdict(text) == "bad"


@pytest.mark.parametrize(
    "text",
    ["Thanks", "ok", "Does it work?", "works?", "Now add the docs", "Perfect would be a green build", "It works but it is slow",
     "Make sure it works", "Check that the tests pass", "No problem, thanks", "no worries", "No need for that", "continue",
     "Works on my machine should be a test", "Fix the test that fails on windows", "Why does it still fail?", "", "…",
     "If it still fails, try the other way", "Looks good, except for the name", "It works when I restart", "Add a test for the case where it is not working"],
)  # fmt: skip
def test_a_user_who_says_nothing_of_it(text):
    assert words.verdict(text) == ""


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("Now add the docs", True), ("Perfect. Now add the docs please", True), ("thanks", False), ("yes, go ahead", False),
     ("continue with the plan", False), ("it still fails on my side", False), ("Perfect, it works", False), ("no", False)],
)  # fmt: skip
def test_what_opens_a_task(text, is_one):
    assert words.opens_task(text) is is_one


@pytest.mark.parametrize(
    "text",
    ["The tests still fail.", "I was unable to reproduce the bug", "I couldn't fix this", "The build is failing"],
)
def test_an_agent_that_admits_a_failure(text):
    assert words.admission(f"I looked at it. {text} More later.")


@pytest.mark.parametrize(
    "text",
    [
        "All tests pass.",
        "The tests no longer fail.",
        "Added a test that fails without the fix.",
        "No tests fail.",
        "It cannot overflow now.",
    ],
)
def test_an_agent_that_admits_nothing(text):
    assert words.admission(text) == ""
