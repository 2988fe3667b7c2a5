"""Claude Code sessions: `~/.claude/projects/<folder>/<session>.jsonl`, one record a line.

    {"type":"user","uuid":…,"sessionId":…,"timestamp":…,"message":{"role":"user","content":"Fix it"}}
    {"type":"assistant","message":{"id":"msg_1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{…}}],
     "usage":{"input_tokens":3,"cache_creation_input_tokens":9,"cache_read_input_tokens":99,"output_tokens":7}},…}
    {"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":false,…}]},
     "toolUseResult":{"stdout":…,"interrupted":false},…}

A message is written once per block, each time with the usage of all of it. A command that failed has `Exit code 1` at
the head of its text; one that went well has no code, but `is_error` is false. Sub-agents (`isSidechain`) work in the
same tree, so their steps count; their prompts are no human's.

Source: sessions of versions 1.0.0 to 2.1; nothing is documented.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyberos.record import human, tools
from cyberos.record.draft import Draft
from cyberos.record.loose import count, items, mapping, milliseconds, spoken, string
from cyberos.record.transcript import ASSISTANT, USER, VERIFIER, Command, Edit, Turn, clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyberos.record.stream import Piece
    from cyberos.record.transcript import Run

NAME = "claude-code"
USAGE = ("input_tokens", "cache_creation_input_tokens", "output_tokens")
_READ_ONLY = ("Explore", "Plan", "claude-code-guide", "statusline-setup")
_DENIALS = ("The user doesn't want to proceed", "User rejected tool use")


def matches(head: Sequence[Piece]) -> bool:
    """Report whether these are the first records of a session."""
    for _, value, _ in head:
        kind = value.get("type") if isinstance(value, dict) else None
        if kind in ("user", "assistant") and "message" in value and ("sessionId" in value or "uuid" in value):
            return "session_id" not in value
        if kind == "summary" and "leafUuid" in value:
            return True
        if kind in ("user", "assistant", "system") and "sessionId" in value:
            return True
    return False


def read(pieces: Iterable[Piece]) -> list[Run]:
    """Read each session of the file as a run, in the order in which they begin."""
    sessions: dict[str, _Session] = {}
    current = ""
    for _, record, line in pieces:
        current = string(record.get("sessionId")) or current
        if current not in sessions:
            sessions[current] = _Session(current)
        sessions[current].take(record, line)
    return [session.finish() for session in sessions.values()]


class _Session:
    def __init__(self, name: str) -> None:
        self.draft = Draft(name)
        self._seen: set[tuple[str, int]] = set()
        self._side_tasks: list[tuple[str, int | None, int]] = []
        self._is_beside, self._is_main = False, False
        self._delegated: dict[str, int] = {}

    def take(self, record: dict[str, Any], line: int) -> None:
        kind, message = string(record.get("type")), record.get("message")
        at = milliseconds(record.get("timestamp"))
        identity = (string(record.get("uuid")), hash(repr(message)))
        if identity[0] and identity in self._seen:
            return
        self._seen.add(identity)
        is_side = record.get("isSidechain") is True
        self._is_beside |= is_side
        self._is_main |= not is_side and kind in (USER, ASSISTANT)
        self.draft.tick(at)
        if kind == ASSISTANT:
            self._answer(record, mapping(message), at, line)
        elif kind == USER:
            self._input(record, mapping(message).get("content"), at, line, is_side=is_side)
        elif kind == "attachment" and mapping(record.get("attachment")).get("type") == "queued_command":
            self.draft.say(USER, human.typed(spoken(mapping(record["attachment"]).get("prompt"))), at, line)

    def _answer(self, record: dict[str, Any], message: dict[str, Any], at: int | None, line: int) -> None:
        if record.get("isApiErrorMessage") is True:
            self.draft.stop("failed", spoken(message.get("content")), at, line)
            return
        key = string(message.get("id")) or string(record.get("requestId")) or f"line {line}"
        if isinstance(message.get("usage"), dict):
            self.draft.spend(key, message["usage"], *USAGE)
        answer(self.draft, message.get("content"), at, line)

    def _input(self, record: dict[str, Any], content: Any, at: int | None, line: int, *, is_side: bool) -> None:
        for block in items(content):
            if mapping(block).get("type") == "tool_result":
                result(self.draft, block, record.get("toolUseResult"))
                self._delegate(string(block.get("tool_use_id")), mapping(record.get("toolUseResult")))
        text = spoken(content)
        if is_side:
            self._side_tasks.append((text, at, line))
        elif record.get("isMeta") is not True and record.get("isCompactSummary") is not True:
            hear(self.draft, text, at, line)
        elif human.is_objection(text):
            self.draft.say(VERIFIER, text, at, line)

    def _delegate(self, key: str, result: dict[str, Any]) -> None:
        """Keep what a sub-agent spent: it is counted here only if its own records stand elsewhere."""
        if "totalTokens" in result or "totalToolUseCount" in result:
            usage = mapping(result.get("usage"))
            self._delegated[key] = sum(count(usage.get(name)) for name in USAGE) or count(result.get("totalTokens"))

    def finish(self) -> Run:
        if not self._is_main:  # the file of one sub-agent: its prompt is the task
            for text, at, line in self._side_tasks[:1]:
                self.draft.run.steps.insert(0, Turn(USER, clip(text), at, line))
        if not self._is_beside:
            for key, tokens in self._delegated.items():
                self.draft.spend(f"sub-agent {key}", {"tokens": tokens}, "tokens")
        return self.draft.finish()


def answer(draft: Draft, content: Any, at: int | None, line: int) -> None:
    """Take the blocks of an assistant's message."""
    if isinstance(content, str):
        draft.say(ASSISTANT, content, at, line)
    for block in items(content):
        if isinstance(block, str):
            draft.say(ASSISTANT, block, at, line)
        elif mapping(block).get("type") == "text":
            draft.say(ASSISTANT, string(block.get("text")), at, line)
        elif mapping(block).get("type") == "tool_use":
            name, given, key = string(block.get("name")), mapping(block.get("input")), string(block.get("id"))
            if name in ("Task", "Agent"):
                if draft.called(key) is None and given.get("subagent_type") not in _READ_ONLY:
                    draft.add(Edit("(whatever a sub-agent changed)", at, line), key)
            else:
                draft.call(key, name, given, at, line)


def result(draft: Draft, block: dict[str, Any], extra: Any) -> None:
    """Take a tool's result; `extra` is the record's `toolUseResult`."""
    text, more = spoken(block.get("content")), mapping(extra)
    is_error = block.get("is_error")
    key = string(block.get("tool_use_id"))
    if isinstance(extra, str) and not text:
        text = extra
    is_denied = text.startswith(_DENIALS) or (isinstance(extra, str) and extra.startswith(_DENIALS))
    # the tool says of a command that went well only that it was no error; one that went on in the background is none
    is_known = is_error is False or (is_error is None and {"stdout", "interrupted"} <= more.keys())
    is_away = bool(more.get("backgroundTaskId") or more.get("backgroundedByUser"))
    code = more.get("exitCode", more.get("exit_code"))
    if code is None and is_known and not more.get("returnCodeInterpretation"):
        code = 0
    step = draft.called(key)
    if is_away or (isinstance(step, Command) and step.state == "background"):
        draft.result(key, tools.Result(None, text, "background"))
    elif is_denied:
        draft.result(key, tools.Result(None, text, "refused"))
    elif is_error is True:
        draft.result(key, tools.result(text, exit_code=code, is_error=True, is_cut=more.get("interrupted") is True))
    elif code is None:
        draft.result(key, tools.Result(None, text, "interrupted" if more.get("interrupted") else "done"))
    else:
        draft.result(key, tools.result(text, exit_code=code, is_cut=more.get("interrupted") is True))


def hear(draft: Draft, text: str, at: int | None, line: int) -> None:
    """Take what stands under the user's name: a person's turn, an interruption, a hook's word, or nothing."""
    if text.startswith(human.INTERRUPTED):
        draft.stop("interrupted", text, at, line)
    elif human.is_objection(text):
        draft.say(VERIFIER, text, at, line)
    else:
        draft.say(USER, human.typed(text), at, line)
