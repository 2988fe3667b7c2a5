"""Each format, in the shapes that real files have: small ones of our own, and what the real programs wrote."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from cyberos.agents.hooks import HOW_TO_LOG, REMINDER
from cyberos.record import evidence, formats, human
from cyberos.record.formats import UnknownFormat
from cyberos.record.recording import duration_ms
from cyberos.record.transcript import Run, Transcript

REAL = Path(__file__).parent / "transcripts" / "real"
CALLED = ["python3 -m unittest -q"]


def read(*values, name: str | None = None) -> Transcript:
    """Read JSON lines, one for each value."""
    text = "".join(value if isinstance(value, str) else json.dumps(value) + "\n" for value in values)
    return formats.read(io.BytesIO(text.encode()), "run.jsonl", name)


def document(value) -> Transcript:
    return formats.read(io.BytesIO(json.dumps(value, indent=1).encode()), "run.json")


def one(transcript: Transcript) -> Run:
    assert len(transcript.runs) == 1
    return transcript.runs[0]


def said(run: Run) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in run.turns if turn.role != "tool"]


def ran(run: Run) -> list[tuple[str, int | None, str]]:
    return [(command.text, command.exit_code, command.state) for command in run.commands]


# --- Claude Code ----------------------------------------------------------------------------------------------------


def claude(kind: str, content, at: str = "2026-01-02T03:04:05Z", **more):
    message = {"role": kind, "content": content} | more.pop("message", {})
    return {"type": kind, "sessionId": "s1", "uuid": more.pop("uuid", None), "timestamp": at, "message": message} | more


def use(key: str, command: str, name: str = "Bash"):
    return {"type": "tool_use", "id": key, "name": name, "input": {"command": command}}


def gave(key: str, text: str, **more):
    return {"type": "tool_result", "tool_use_id": key, "content": text} | more


def test_claude_code_gives_exit_codes_where_there_are_none():
    run = one(
        read(
            claude("user", "Fix it"),
            claude(
                "assistant",
                [use("t1", "pytest"), use("t2", "make"), use("t3", "tox"), use("t4", "nox"), use("t5", "ls")],
            ),
            claude(
                "user",
                [gave("t1", "Exit code 1\n1 failed", is_error=True)],
                toolUseResult="Error: Exit code 1\n1 failed",
            ),
            claude(
                "user",
                [gave("t2", "ok", is_error=False)],
                toolUseResult={"stdout": "ok", "stderr": "", "interrupted": False},
            ),
            claude("user", [gave("t3", "\x1b[31m Tests  1 failed", is_error=True)]),
            claude("user", [gave("t4", "The user doesn't want to proceed with this tool use.", is_error=True)]),
            claude("user", [gave("t5", "a")]),
        )
    )
    assert ran(run) == [
        ("pytest", 1, "done"), ("make", 0, "done"), ("tox", None, "failed"), ("nox", None, "refused"), ("ls", None, "done"),
    ]  # fmt: skip


def test_claude_code_in_the_background_has_no_exit_code():
    asked = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest", "run_in_background": True}}
    moved = claude(
        "user",
        [gave("t2", "moved", is_error=False)],
        toolUseResult={"stdout": "", "interrupted": False, "backgroundTaskId": "b1"},
    )
    run = one(
        read(
            claude("user", "Test it"),
            claude("assistant", [asked, use("t2", "tox")]),
            claude(
                "user",
                [gave("t1", "Command running in background", is_error=False)],
                toolUseResult={"stdout": "", "interrupted": False},
            ),
            moved,
        )
    )
    assert [state for _, _, state in ran(run)] == ["background", "background"]
    assert [code for _, code, _ in ran(run)] == [None, None]


def test_claude_code_counts_the_usage_of_a_message_once_and_no_cache_reads():
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 9_000, "output_tokens": 1}
    grown = usage | {"output_tokens": 40}
    run = one(
        read(
            claude("user", "Fix it"),
            claude("assistant", [{"type": "text", "text": "a"}], message={"id": "m1", "usage": usage}),
            claude("assistant", [use("t1", "ls")], message={"id": "m1", "usage": grown}),
            claude("assistant", "done", message={"id": "m2", "usage": grown}),
        )
    )
    assert run.tokens == 2 * (3 + 10 + 40)


@pytest.mark.parametrize(
    "text",
    ["<command-name>/clear</command-name>", "<local-command-stdout>x</local-command-stdout>", "Caveat: The messages below were",
     "<task-notification>x</task-notification>", "<bash-input>ls</bash-input>", "<system-reminder>x</system-reminder>",
     "This session is being continued from a previous conversation that ran out of context."],
)  # fmt: skip
def test_claude_code_puts_what_no_human_typed_under_the_users_name(text):
    run = one(read(claude("user", text), claude("user", "Fix it"), claude("assistant", "Done.")))
    assert said(run) == [("user", "Fix it"), ("assistant", "Done.")]


def test_a_slash_command_of_the_users_own_asks_something():
    text = "<command-message>fix</command-message>\n<command-name>/fix-issue</command-name>\n<command-args>12</command-args>"
    assert said(one(read(claude("user", text), claude("assistant", "Done."))))[0] == ("user", "/fix-issue 12")


def test_claude_code_meta_summaries_and_other_sessions_summaries_are_no_turns():
    run = one(
        read(
            {"type": "summary", "summary": "Of another session", "leafUuid": "x"},
            claude("user", "Fix it"),
            claude("user", "expanded", isMeta=True),
            claude("user", "Summary so far", isCompactSummary=True),
            {"type": "system", "subtype": "compact_boundary", "sessionId": "s1", "timestamp": "2026-01-02T03:05:05Z"},
            claude("assistant", ["bare", {"type": "text", "text": "Done."}]),
        )
    )
    assert said(run) == [("user", "Fix it"), ("assistant", "bare"), ("assistant", "Done.")]


def test_records_out_of_time_order_are_put_in_it():
    run = one(
        read(
            claude("user", "Fix it", "2026-01-02T03:00:00Z"),
            claude("assistant", [use("t2", "pytest")], "2026-01-02T03:02:00Z"),
            claude(
                "assistant",
                [{"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "a.py"}}],
                "2026-01-02T03:01:00Z",
            ),
            claude("user", [gave("t2", "ok", is_error=False)], "2026-01-02T03:02:10Z"),
        )
    )
    assert [type(step).__name__ for step in run.steps] == ["Turn", "Edit", "Command"]


def test_two_sessions_of_one_file_are_two_runs():
    other = claude("user", "Another", uuid="u9") | {"sessionId": "s2"}
    found = read(claude("user", "Fix it"), claude("assistant", "Done."), other)
    assert [run.session for run in found.runs] == ["s1", "s2"]


def test_a_sub_agent_counts_once_and_its_work_counts():
    told = {"totalTokens": 500, "totalToolUseCount": 2, "usage": {"input_tokens": 70, "output_tokens": 30}}
    task = {
        "type": "tool_use",
        "id": "t1",
        "name": "Task",
        "input": {"prompt": "Look", "subagent_type": "general-purpose"},
    }
    apart = [
        claude("user", "Fix it"),
        claude("assistant", [task], message={"id": "m1", "usage": {"output_tokens": 5}}),
        claude("user", [gave("t1", "found")], toolUseResult=told),
    ]
    within = [
        claude("user", "Look", isSidechain=True),
        claude(
            "assistant", [use("t9", "pytest")], isSidechain=True, message={"id": "m9", "usage": {"output_tokens": 100}}
        ),
    ]
    assert one(read(*apart)).tokens == 5 + 100
    run = one(read(*apart[:2], *within, apart[2]))
    assert run.tokens == 5 + 100
    assert said(run) == [("user", "Fix it")]
    assert ran(run) == [("pytest", None, "running")]
    assert len(run.edits) == 1


def test_the_file_of_a_sub_agent_alone_has_its_prompt_as_the_task():
    run = one(read(claude("user", "Look", isSidechain=True), claude("assistant", "Found.", isSidechain=True)))
    assert said(run) == [("user", "Look"), ("assistant", "Found.")]


def test_an_interrupted_turn_and_an_error_of_the_api_stop_a_run():
    kinds = []
    for last in (
        claude("user", "[Request interrupted by user for tool use]"),
        claude("assistant", "API Error: 529", isApiErrorMessage=True),
    ):
        kinds.append(one(read(claude("user", "Fix it"), claude("assistant", "Well"), last)).steps[-1].kind)
    assert kinds == ["interrupted", "failed"]


def test_a_failed_edit_is_none():
    edit = {"type": "tool_use", "id": "t1", "name": "Edit", "input": {"file_path": "a.py"}}
    run = one(
        read(
            claude("user", "Fix"),
            claude("assistant", [edit]),
            claude("user", [gave("t1", "<tool_use_error>no", is_error=True)]),
        )
    )
    assert run.edits == []


def test_the_same_record_twice_counts_once_and_another_text_is_kept():
    first = claude("assistant", "One.", uuid="u1")
    run = one(read(claude("user", "Fix it"), first, first, claude("assistant", "Two.", uuid="u1")))
    assert [text for role, text in said(run) if role == "assistant"] == ["One.", "Two."]


def test_idle_gaps_are_no_work():
    run = one(
        read(
            claude("user", "Fix it", "2026-01-02T03:00:00Z"),
            claude("assistant", "A", "2026-01-02T03:01:00Z"),
            claude("user", "And this", "2026-01-02T03:05:00Z"),
            claude("assistant", "B", "2026-01-02T03:05:30Z"),
            claude("assistant", "C", "2026-01-02T03:15:30Z"),
            claude("assistant", "D", "2026-01-02T03:25:30.001Z"),
        )
    )
    assert duration_ms(run) == 60_000 + 30_000 + 600_000


def test_what_is_damaged_is_passed_over_and_told():
    found = read(
        claude("user", "Fix it"), "42\n", '"massive error"\n', "[1]\n", "\n", "{broken\n", claude("assistant", "Done."),
        '{"type":"assistant","message":{"con',
    )  # fmt: skip
    assert said(one(found)) == [("user", "Fix it"), ("assistant", "Done.")]
    assert found.skipped == [
        "line 2: not an object", "line 3: not an object", "line 4: not an object", "line 6: not JSON",
        "line 8: a half-written line",
    ]  # fmt: skip


# --- streams of Claude Code and Codex --------------------------------------------------------------------------------


def test_claude_stream_ends_with_a_result():
    init = {"type": "system", "subtype": "init", "session_id": "s"}
    answer = {
        "type": "assistant",
        "session_id": "s",
        "message": {"id": "m", "content": [{"type": "text", "text": "Hm."}], "usage": {"output_tokens": 1}},
    }
    end = {
        "type": "result",
        "session_id": "s",
        "duration_ms": 9_120,
        "usage": {"input_tokens": 5, "output_tokens": 40, "cache_read_input_tokens": 7},
    }
    good = one(read(init, answer, end | {"subtype": "success", "is_error": False}))
    assert (good.tokens, duration_ms(good)) == (45, 9_120)
    for kind, stop in (("error_during_execution", "failed"), ("error_max_turns", "limit"), ("success", "failed")):
        run = one(read(init, answer, end | {"subtype": kind, "is_error": True}))
        assert run.steps[-1].kind == stop
    assert one(read(init, answer)).tokens == 1


def item(kind: str, over: str = "completed", **more):
    return {"type": f"item.{over}", "item": {"id": more.pop("id", "i1"), "type": kind} | more}


def test_codex_exec_says_that_tests_pass_and_they_do_not():
    """Agents do this: the last run of the tests failed, and the last word is that they pass."""
    command = {"command": "bash -lc 'pytest -q'", "status": "in_progress", "exit_code": None, "aggregated_output": ""}
    ended = command | {"status": "failed", "exit_code": 1, "aggregated_output": "1 failed in 0.1s"}
    run = one(
        read(
            {"type": "thread.started", "thread_id": "x"},
            {"type": "turn.started"},
            item("file_change", id="i0", changes=[{"path": "a.py", "kind": "update"}], status="completed"),
            item("command_execution", "started", **command),
            item("command_execution", **ended),
            item("agent_message", id="i2", text="All tests pass."),
            {"type": "turn.completed", "usage": {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 7}},
        )
    )
    assert ran(run) == [("pytest -q", 1, "done")]
    assert run.tokens == 47
    verdict = evidence.weigh(run.steps)
    assert (verdict.outcome, verdict.evidence) == ("failure", "test")


def test_codex_exec_turns_may_fail_and_commands_may_have_no_end():
    run = one(
        read(
            item("command_execution", "started", command="make", status="in_progress"),
            item("command_execution", id="i2", command="tox", status="declined"),
            {"type": "turn.failed", "error": {"message": "stream closed"}},
        )
    )
    assert ran(run) == [("make", None, "running"), ("tox", None, "refused")]
    assert (run.steps[-1].kind, run.steps[-1].text) == ("failed", "turn.failed: stream closed")


def codex(kind: str, at: str = "2026-01-02T03:04:05Z", **payload):
    return {"timestamp": at, "type": kind, "payload": payload}


def test_codex_doubles_wraps_and_quotes():
    text = "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nFix it\n"
    shell = {"command": ["bash", "-lc", "pytest -q"], "workdir": "/x"}
    run = one(
        read(
            codex("session_meta", id="s1", cwd="/x"),
            codex(
                "response_item",
                type="message",
                role="user",
                content=[{"type": "input_text", "text": "<environment_context>x</environment_context>"}],
            ),
            codex("response_item", type="message", role="user", content=[{"type": "input_text", "text": text}]),
            codex("event_msg", type="user_message", message=text),
            codex("response_item", type="function_call", name="shell", arguments=json.dumps(shell), call_id="c1"),
            codex(
                "response_item",
                type="function_call_output",
                call_id="c1",
                output=json.dumps({"output": "no", "metadata": {"exit_code": 2}}),
            ),
            codex("response_item", type="function_call", name="shell", arguments=json.dumps(shell), call_id="c2"),
            codex(
                "response_item",
                type="function_call_output",
                call_id="c2",
                output="failed in sandbox MacosSeatbelt with exit code 1",
            ),
            codex(
                "response_item",
                type="custom_tool_call",
                name="apply_patch",
                input="*** Begin Patch\n*** Update File: a.py\n",
                call_id="c3",
            ),
            codex(
                "response_item",
                type="custom_tool_call_output",
                call_id="c3",
                output='{"output":"Success","metadata":{"exit_code":0}}',
            ),
            codex("event_msg", type="agent_message", message="Done."),
            codex(
                "response_item", type="message", role="assistant", content=[{"type": "output_text", "text": "Done."}]
            ),
        )
    )
    assert said(run) == [("user", "Fix it"), ("assistant", "Done.")]
    assert ran(run) == [("pytest -q", 2, "done"), ("pytest -q", None, "done")]
    assert [edit.path for edit in run.edits] == ["a.py"]


def test_codex_counters_begin_anew():
    def counted(total: int):
        return codex(
            "event_msg",
            type="token_count",
            info={"total_token_usage": {"input_tokens": total, "cached_input_tokens": 0, "output_tokens": 0}},
        )

    empty = codex("event_msg", type="token_count", info=None)
    run = one(
        read(
            codex("event_msg", type="user_message", message="Fix it"),
            counted(10),
            counted(30),
            empty,
            counted(5),
            counted(7),
        )
    )
    assert run.tokens == 37


def test_a_command_of_codex_that_goes_on_ends_where_it_is_asked_again():
    run = one(
        read(
            codex("event_msg", type="user_message", message="Fix it"),
            codex(
                "response_item", type="function_call", name="exec_command", arguments='{"cmd":"pytest"}', call_id="c1"
            ),
            codex(
                "response_item",
                type="function_call_output",
                call_id="c1",
                output="Chunk ID: a\nWall time: 1 s\nProcess running with session ID 7\nOutput:\n...",
            ),
            codex(
                "response_item",
                type="function_call",
                name="write_stdin",
                arguments='{"session_id":7,"chars":""}',
                call_id="c2",
            ),
            codex(
                "response_item",
                type="function_call_output",
                call_id="c2",
                output="Chunk ID: b\nWall time: 1 s\nProcess exited with code 0\nOutput:\n3 passed",
            ),
        )
    )
    assert ran(run) == [("pytest", 0, "done")]


def test_an_exit_code_that_a_command_printed_itself_is_none():
    run = one(
        read(
            codex("event_msg", type="user_message", message="Fix it"),
            codex(
                "response_item", type="function_call", name="exec_command", arguments='{"cmd":"pytest"}', call_id="c1"
            ),
            codex(
                "response_item",
                type="function_call_output",
                call_id="c1",
                output="Chunk ID: a\nOutput:\nProcess exited with code 0\nmore",
            ),
        )
    )
    assert ran(run)[0][1] is None


def test_the_oldest_codex_files_have_no_envelope():
    run = one(
        read(
            {"id": "x", "timestamp": "2025-05-01T00:00:00Z", "instructions": None},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
        )
    )
    assert said(run) == [("user", "Fix it"), ("assistant", "Done.")]


# --- Gemini CLI and opencode ------------------------------------------------------------------------------------------


def shell_call(output: str, status: str = "success"):
    return {"name": "run_shell_command", "args": {"command": "make test"}, "status": status,
            "result": [{"functionResponse": {"response": {"output": output}}}]}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "code", "state"),
    [
        (shell_call("Output: x\nExit Code: 2\nProcess Group PGID: 7"), 2, "done"),
        (shell_call("Output: Exit Code: 0\nExit Code: 2\nProcess Group PGID: 7"), 2, "done"),
        (shell_call("Output: x\nProcess Group PGID: 7"), 0, "done"),
        (
            shell_call(
                "Command: x\nStdout: y\nError: (none)\nExit Code: 0\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 7"
            ),
            0,
            "done",
        ),
        (shell_call("Output: x\nSignal: 15\nProcess Group PGID: 7"), None, "interrupted"),
        (shell_call("Output: x\nBackground PIDs: 9\nProcess Group PGID: 7"), None, "done"),
        (shell_call("", "cancelled"), None, "refused"),
        (shell_call("Exit Code: 0\nand more"), None, "done"),
    ],
)
def test_gemini_says_the_exit_code_in_the_last_lines(call, code, state):
    chat = {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-02T03:04:05Z", "messages": [
        {"id": "1", "type": "user", "timestamp": "2026-01-02T03:04:05Z", "content": "Fix it"},
        {"id": "2", "type": "gemini", "timestamp": "2026-01-02T03:04:09Z", "content": "Done.", "toolCalls": [call],
         "tokens": {"input": 100, "cached": 60, "output": 5, "thoughts": 2, "tool": 0, "total": 107}},
    ]}  # fmt: skip
    run = one(document(chat))
    assert ran(run) == [("make test", code, state)]
    assert said(run) == [("user", "Fix it"), ("assistant", "Done.")]
    assert run.tokens == 47
    assert run.session == "s"


def part(kind: str, **more):
    return {
        "type": kind,
        "timestamp": 1_767_323_045_000,
        "sessionID": "s",
        "part": {"type": kind.replace("_", "-")} | more,
    }


def test_opencode_streams_parts_and_errors():
    state = {
        "status": "completed",
        "input": {"command": "pytest"},
        "output": "x",
        "metadata": {"exit": 1},
        "time": {"start": 1_767_323_046_000, "end": 1_767_323_049_000},
    }
    tool = {
        "type": "tool_use",
        "timestamp": 1_767_323_049_000,
        "sessionID": "s",
        "part": {"type": "tool", "tool": "bash", "callID": "c", "state": state},
    }
    run = one(
        read(
            part("step_start"),
            part("text", text="Hm."),
            tool,
            part("step_finish", tokens={"input": 10, "output": 2, "reasoning": 1, "cache": {"read": 900, "write": 4}}),
            {
                "type": "error",
                "timestamp": 1_767_323_050_000,
                "sessionID": "s",
                "error": {"name": "APIError", "data": {"message": "no", "statusCode": 429}},
            },
        )
    )
    assert ran(run) == [("pytest", 1, "done")]
    assert (run.tokens, duration_ms(run)) == (17, 5_000)
    assert (run.steps[-1].kind, run.steps[-1].text) == ("failed", "APIError 429: no")


# --- SWE-agent, mini-swe-agent, OpenHands, messages -------------------------------------------------------------------


def test_a_swe_agent_trajectory_has_no_exit_codes():
    steps = [
        {"action": "open a.py", "observation": "[File: a.py]", "thought": "Look.", "execution_time": 0.5},
        {
            "action": "edit 1:2\nx\nend_of_edit",
            "observation": "[File: a.py (3 lines)]",
            "response": "Edit.",
            "execution_time": 0.25,
        },
        {"action": "pytest -q", "observation": "1 passed in 0.1s", "response": "Test.", "execution_time": 1.0},
        {"action": "submit", "observation": "", "response": "Done."},
    ]
    task = "We're solving an issue.\nHere's the issue text:\nISSUE:\nFix it\r\nplease\n\nINSTRUCTIONS:\nGo on."
    history = [
        {"role": "system", "content": "You are"},
        {"role": "user", "content": "a demo", "is_demo": True},
        {"role": "user", "content": task},
    ]
    info = {"exit_status": "submitted", "model_stats": {"tokens_sent": 122_612, "tokens_received": 1_369}}
    run = one(document({"environment": "x", "trajectory": steps, "history": history, "info": info}))
    assert said(run)[0] == ("user", "Fix it\r\nplease")
    assert ran(run) == [("pytest -q", None, "done")]
    assert [edit.path for edit in run.edits] == ["a.py"]
    assert (run.tokens, duration_ms(run)) == (123_981, 1_750)
    verdict = evidence.weigh(run.steps)
    assert (verdict.outcome, verdict.evidence) == ("success", "agent")
    limit = one(document({"trajectory": steps, "history": history, "info": {"exit_status": "exit_cost"}}))
    assert evidence.weigh(limit.steps).ended == "abandoned"


def test_a_mini_swe_agent_of_old_puts_commands_in_its_text():
    run = one(
        document(
            [
                {"role": "system", "content": "You are"},
                {
                    "role": "user",
                    "content": "<pr_description>\nConsider the following PR description:\nFix it\n</pr_description>\nRules: many.",
                },
                {"role": "assistant", "content": "THOUGHT: test\n\n```bash\npytest -q\n```"},
                {"role": "user", "content": "<returncode>1</returncode>\n<output>\n1 failed\n</output>"},
                {"role": "assistant", "content": "hm, no command"},
                {"role": "user", "content": "Please always provide EXACTLY ONE action in triple backticks"},
            ]
        )
    )
    assert said(run)[0] == ("user", "Fix it")
    assert [role for role, _ in said(run)] == ["user", "assistant", "assistant"]
    assert ran(run) == [("pytest -q", 1, "done")]


def openhands(**more):
    history = [
        {
            "id": 0,
            "timestamp": "2026-01-02T03:04:05.678",
            "source": "user",
            "action": "message",
            "args": {"content": "Fix it"},
        },
        {
            "id": 1,
            "timestamp": "2026-01-02T03:04:06.678",
            "source": "agent",
            "action": "edit",
            "args": {"path": "/w/a.py", "command": "str_replace"},
        },
        {
            "id": 2,
            "timestamp": "2026-01-02T03:04:07.678",
            "source": "agent",
            "observation": "edit",
            "cause": 1,
            "content": "ok",
            "extras": {},
        },
        {
            "id": 3,
            "timestamp": "2026-01-02T03:04:08.678",
            "source": "agent",
            "action": "run",
            "args": {"command": "pytest"},
        },
        {
            "id": 4,
            "timestamp": "2026-01-02T03:04:09.678",
            "source": "agent",
            "observation": "run",
            "cause": 3,
            "content": "x",
            "extras": {"metadata": {"exit_code": 1}},
        },
        {
            "id": 5,
            "timestamp": "2026-01-02T03:04:09.678",
            "source": "agent",
            "action": "finish",
            "args": {"final_thought": "Done."},
        },
    ]
    return {"instance_id": "a-1", "instruction": "Fix it", "history": history, "error": None} | more


def test_openhands_has_a_run_a_line_and_hidden_tests_stand_above_the_agents():
    usage = {"accumulated_token_usage": {"prompt_tokens": 100, "cache_read_tokens": 60, "completion_tokens": 5}}
    found = read(
        openhands(metrics=usage),
        openhands(test_result={"report": {"resolved": True}}),
        openhands(error="stuck in a loop"),
    )
    assert [run.session for run in found.runs] == ["a-1"] * 3
    assert found.runs[0].tokens == 45
    assert ran(found.runs[0]) == [("pytest", 1, "done")]
    assert duration_ms(found.runs[0]) == 4_000
    verdicts = [evidence.weigh(run.steps) for run in found.runs]
    assert [(verdict.outcome, verdict.evidence) for verdict in verdicts] == [
        ("failure", "test"),
        ("success", "test"),
        ("failure", "none"),
    ]


def test_one_line_of_openhands_is_a_run_too():
    assert one(read(openhands())).session == "a-1"


def test_the_word_of_the_resolvers_judge_is_a_judges():
    lone = openhands(success=True, result_explanation="looks fine")
    lone["history"] = lone["history"][:1] + lone["history"][5:]
    verdict = evidence.weigh(one(read(lone)).steps)
    assert (verdict.outcome, verdict.evidence) == ("success", "judge")


def test_openhands_of_today_has_kinds():
    events = [
        {
            "kind": "MessageEvent",
            "id": "a",
            "source": "user",
            "timestamp": "2026-01-02T03:04:05",
            "llm_message": {"role": "user", "content": [{"type": "text", "text": "Fix it"}]},
        },
        {
            "kind": "ActionEvent",
            "id": "b",
            "source": "agent",
            "tool_name": "terminal",
            "tool_call_id": "c",
            "action": {"command": "pytest", "kind": "TerminalAction"},
        },
        {
            "kind": "ObservationEvent",
            "id": "d",
            "source": "environment",
            "tool_call_id": "c",
            "observation": {"exit_code": 0, "content": [{"type": "text", "text": "ok"}]},
        },
    ]
    assert ran(one(document(events))) == [("pytest", 0, "done")]


def test_plain_messages_in_every_wrapping():
    messages = [
        {"role": "system", "content": "You are"},
        {"role": "user", "content": "Fix it"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "pytest"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Exit code: 1\n1 failed"},
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "run_command", "arguments": '{"command": "make"}'},
        },
        {"role": "function", "name": "run_command", "content": "[The command completed with exit code 0.]"},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ]
    for found in (
        document(messages),
        document({"messages": messages}),
        read(*messages),
        document({"history": messages, "info": {}}),
    ):
        run = one(found)
        assert said(run) == [("user", "Fix it"), ("assistant", "Done.")]
        assert ran(run) == [("pytest", 1, "done"), ("make", 0, "done")]
    assert len(read({"messages": messages}, {"messages": messages}).runs) == 2


# --- what the real programs wrote, and what nobody writes -------------------------------------------------------------


@pytest.mark.parametrize("file", sorted(REAL.iterdir()), ids=lambda file: file.name)
def test_what_the_real_programs_wrote(file):
    """A mock model had each agent run the tests, read the file, mend it and test again."""
    with file.open("rb") as handle:
        found = formats.read(handle, file.name)
    assert found.format == file.name.split(".")[0].removesuffix("-export")
    assert found.skipped == []
    run = one(found)
    tests = [(text, code) for text, code, _ in ran(run) if "unittest" in text]
    assert tests == [("python3 -m unittest -q", 1), ("python3 -m unittest -q", 0)]
    verdict = evidence.weigh(run.steps)
    assert (verdict.outcome, verdict.evidence) == ("success", "test")
    assert (verdict.evidence_ref or "").startswith("python3 -m unittest -q -> exit 0 (line ")
    has_task = file.name.split(".")[0] not in ("claude-stream", "codex-exec", "opencode")
    assert ("user", "Fix add in calc.py so that its tests pass") in said(run) or not has_task
    assert run.tokens == {"claude-code": 710, "claude-stream": 710, "gemini": 1_225}.get(found.format, 1_200)


@pytest.mark.parametrize(
    "blob", [b"", b"\n\n", b"hello\n", b"\x00\x01", b"[]", b"{}", b"42", b'{"a": 1}\n{"b": 2}\n', b"[1, 2]", b"[[[["]
)
def test_an_unknown_format_names_the_known_ones(blob):
    with pytest.raises(UnknownFormat) as caught:
        formats.read(io.BytesIO(blob), "x")
    assert all(name in caught.value.hint for name in formats.READERS)


@pytest.mark.parametrize("name", list(formats.READERS))
def test_a_forced_format_that_does_not_fit_says_so(name):
    with pytest.raises(UnknownFormat):
        read({"nothing": "here"}, {"to": "see"}, name=name)


@pytest.mark.parametrize("is_meta", [True, False])
def test_our_own_reminder_is_no_objection_and_no_turn(is_meta):
    begin = {"type": "user", "sessionId": "s", "uuid": "1", "message": {"role": "user", "content": "Fix it"}}
    done = {"type": "assistant", "sessionId": "s", "uuid": "2", "message": {"id": "m", "content": "Done."}}
    hook = begin | {"uuid": "3", "isMeta": is_meta}

    def verdict(text: str) -> str:
        run = one(read(begin, done, hook | {"message": {"role": "user", "content": f"Stop hook feedback:\n{text}"}}))
        return evidence.weigh(run.steps).outcome

    assert verdict("tests are red") == "failure"
    assert verdict(REMINDER) == "success"


@pytest.mark.parametrize(
    "text",
    [REMINDER, f'<hook_prompt hook_run_id="stop:2:/x/hooks.json">{REMINDER}</hook_prompt>', f"<hook_context>{HOW_TO_LOG}</hook_context>"],
)  # fmt: skip
def test_what_our_hooks_say_is_no_turn_of_a_person(text):
    assert human.typed(text) == ""
    assert human.typed(f"<hook_context>{HOW_TO_LOG}</hook_context>\nFix it") == "Fix it"
