"""OpenHands: `output.jsonl` of an evaluation, one run a line, and the events of one conversation.

    {"instance_id":…,"instruction":"Fix it","history":[
      {"id":3,"timestamp":"2026-01-02T03:04:05.678","source":"agent","action":"run","args":{"command":"make test"}},
      {"id":4,"source":"agent","observation":"run","cause":3,"content":…,"extras":{"metadata":{"exit_code":2}}}],
     "metrics":{"accumulated_token_usage":{…}},"error":null,"test_result":{"report":{"resolved":true}}}

Times have no zone; they are taken as UTC. `resolved` is the verdict of tests that the agent never saw; the resolver's
`success` is that of a model. Since version 1 an event is `{"kind":"ActionEvent","tool_name":…,"action":{…}}`.

Source: OpenHands 0.9 to 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyberos.record import human, tools
from cyberos.record.draft import Draft
from cyberos.record.loose import count, integer, items, mapping, milliseconds, spoken, string
from cyberos.record.transcript import ASSISTANT, USER, Command, Edit, Turn, clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cyberos.record.stream import Piece
    from cyberos.record.transcript import Run

NAME = "openhands"
_EVENTS = ("ActionEvent", "ObservationEvent", "MessageEvent", "SystemPromptEvent", "AgentErrorEvent")


def matches(head: Sequence[Piece]) -> bool:
    """Report whether this is the beginning of such a file."""
    for key, value, _ in head:
        found = mapping(value)
        if not key and "instance_id" in found and ("history" in found or "instruction" in found):
            return True
        is_event = "action" in found or "observation" in found or found.get("kind") in _EVENTS
        if key in ("", "history", "events") and "source" in found and is_event:
            return True
    return False


def read(pieces: Iterable[Piece]) -> list[Run]:
    """Read each line that is a run as one; events that stand alone are one run together."""
    runs: list[Run] = []
    loose = Draft()
    rest: dict[str, Any] = {}
    for key, value, line in pieces:
        found = mapping(value)
        if not key and "instance_id" in found:
            runs.append(_whole(found, line))
        elif key in ("", "history", "events"):
            _event(loose, found, line)
        else:
            rest[key] = value
    if loose.run.steps:
        _finish(loose, rest, 1)
        runs.append(loose.finish())
    return runs


def _whole(found: dict[str, Any], line: int) -> Run:
    draft = Draft(string(found.get("instance_id")))
    for each in items(found.get("history")):
        for event in each if isinstance(each, list) else [each]:  # of old: pairs of action and observation
            _event(draft, mapping(event), line)
    _finish(draft, found, line)
    return draft.finish()


def _finish(draft: Draft, found: dict[str, Any], line: int) -> None:
    task = human.unwrapped(string(found.get("instruction")))
    turns = [step for step in draft.run.steps if isinstance(step, Turn) and step.role == USER]
    if turns and not task:
        turns[0].text = human.unwrapped(turns[0].text)
    if task and turns:
        turns[0].text = clip(task)
    elif task:
        draft.run.steps.insert(0, Turn(USER, clip(task), draft.run.steps[0].at_ms if draft.run.steps else None, line))
    usage = mapping(mapping(found.get("metrics")).get("accumulated_token_usage"))
    if usage:
        fresh = max(count(usage.get("prompt_tokens")) - count(usage.get("cache_read_tokens")), 0)
        draft.meter(fresh + count(usage.get("completion_tokens")))
    _verdict(draft, found, line)


def _verdict(draft: Draft, found: dict[str, Any], line: int) -> None:
    error, explained = found.get("error"), string(found.get("result_explanation"))
    report = mapping(mapping(found.get("test_result")).get("report")) or mapping(found.get("report"))
    if isinstance(found.get("success"), bool):
        kind = "accepted" if found["success"] else "rejected"
        draft.stop(kind, f"success {str(found['success']).lower()}: {explained}", None, line)
    if error:
        draft.stop("failed", f"error: {string(error) or 'unknown'}", None, line)
    if isinstance(report.get("resolved"), bool):
        kind = "resolved" if report["resolved"] else "unresolved"
        draft.stop(kind, f"test_result.report.resolved = {str(report['resolved']).lower()}", None, line)


def _event(draft: Draft, event: dict[str, Any], line: int) -> None:
    at = milliseconds(event.get("timestamp"))
    draft.tick(at)
    if "kind" in event:
        _new_event(draft, event, at, line)
    elif "action" in event:
        _action(draft, event, at, line)
    elif "observation" in event:
        _observation(draft, event)


def _action(draft: Draft, event: dict[str, Any], at: int | None, line: int) -> None:
    kind, given, key = string(event.get("action")), mapping(event.get("args")), f"event {event.get('id')}"
    if kind == "message":
        is_human = event.get("source") == "user"
        text = string(given.get("content")) or string(event.get("message"))
        draft.say(USER if is_human else ASSISTANT, human.typed(text) if is_human else text, at, line)
    elif kind == "run":
        if string(given.get("thought")):
            draft.say(ASSISTANT, string(given.get("thought")), at, line)
        is_input = given.get("is_input") is True or given.get("is_input") == "true"
        if not is_input:
            draft.add(Command(clip(string(given.get("command")).strip()), at_ms=at, line=line), key)
    elif kind in ("edit", "write"):
        if given.get("command") != "view":
            draft.add(Edit(clip(string(given.get("path")) or "?", 300), at, line), key)
    elif kind == "run_ipython":
        if any(word in string(given.get("code")) for word in ("edit_file", "insert_content", "append_file", "write(")):
            draft.add(Edit("(by Python)", at, line), key)
    elif kind == "finish":
        draft.say(
            ASSISTANT, string(given.get("final_thought")) or string(event.get("message")) or "Finished.", at, line
        )
    elif kind == "reject":
        draft.say(ASSISTANT, string(mapping(given.get("outputs")).get("reason")) or "I could not do this.", at, line)


def _observation(draft: Draft, event: dict[str, Any]) -> None:
    extras, kind = mapping(event.get("extras")), string(event.get("observation"))
    meta = extras.get("metadata")
    code = mapping(meta).get("exit_code", extras.get("exit_code", event.get("exit_code")))
    text = string(event.get("content"))
    key = f"event {event.get('cause')}"
    if integer(code) == -1:  # the command still runs
        draft.result(key, tools.Result(None, text, "interrupted"))
    elif kind == "error":
        draft.result(key, tools.Result(None, text, "failed"))
    elif kind in ("run", "edit", "write"):
        is_lost = kind != "run" and text.startswith("ERROR:")
        draft.result(key, tools.Result(None, text, "failed") if is_lost else tools.result(text, exit_code=code))


def _new_event(draft: Draft, event: dict[str, Any], at: int | None, line: int) -> None:
    kind, key = event.get("kind"), string(event.get("tool_call_id"))
    if kind == "MessageEvent":
        text = spoken(mapping(event.get("llm_message")).get("content"))
        is_human = event.get("source") == "user"
        draft.say(USER if is_human else ASSISTANT, human.typed(text) if is_human else text, at, line)
    elif kind == "ActionEvent":
        draft.say(ASSISTANT, spoken(event.get("thought")), at, line)
        given = mapping(event.get("action"))
        if event.get("tool_name") == "finish":
            draft.say(ASSISTANT, string(given.get("message")) or "Finished.", at, line)
        else:
            draft.call(key, string(event.get("tool_name")), given, at, line)
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        seen = mapping(event.get("observation"))
        code = seen.get("exit_code", mapping(seen.get("metadata")).get("exit_code"))
        text = spoken(seen.get("content")) or spoken(seen.get("output")) or string(event.get("error"))
        is_cut = seen.get("timeout") is True or integer(code) == -1
        is_error = True if kind != "ObservationEvent" or seen.get("is_error") is True else None
        draft.result(key, tools.result(text, exit_code=None if is_cut else code, is_error=is_error, is_cut=is_cut))
