"""`cyberos episode record`: episodes from the transcript of an agent's run.

    {"label": "success", "outcome": "success", "evidence": "test", "evidence_ref": "pytest -> exit 0 (line 42)",
     "ended": "completed", "duration_ms": 81000, "token_cost": 5200, "why": ["…"], "task": "…", …, "path": "memories/…"}

With --split, or where a file holds several runs, it is `{"items": […]}`. A dry run needs no vault: its `path` is null.

Source: DESIGN sections 7, 8 and 10; seed 000, `recorder.py` and `cli.py`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from hashlib import file_digest
from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import output
from cyberos.core import contract
from cyberos.core.episode import Episode
from cyberos.record import formats, recording
from cyberos.record.keeping import keep, made_storable

if TYPE_CHECKING:
    from io import BufferedRandom, BufferedReader

    from cyberos.record.endpoint import Endpoint
    from cyberos.record.recording import Recording
    from cyberos.record.transcript import Transcript

_SHOWN = ("outcome", "evidence", "evidence_ref", "ended", "duration_ms", "token_cost")
_MORE = ("task", "approach", "lesson", "error", "occurred_at", "transcript_ref")


@click.command(
    epilog="""\b
Examples:
  cyberos episode record ~/.claude/projects/-home-ada-app/8f1c.jsonl --dry-run
  cyberos episode record run.jsonl --task "Fix the flaky login test" --no-llm --json"""
)
@click.argument("transcript")
@click.option("--task", help="What was to be done; needed where the transcript does not say.")
@click.option(
    "--outcome", type=click.Choice(["success", "partial", "failure"]), help="How it went, if you know better."
)
@click.option("--evidence", help="With --outcome, who says so: test | exit_code | user | judge | agent | none")
@click.option("--evidence-ref", help="With --evidence: what the evidence is.")
@click.option("--split", is_flag=True, help="One episode for each task that the user set.")
@click.option(
    "--skip-bytes", "skip", metavar="N", type=click.IntRange(0), default=0, help="Only what came after N bytes of it."
)
@click.option("--dry-run", is_flag=True, help="Show what would be stored, and why; store nothing.")
@click.option("--no-llm", is_flag=True, help="Do not ask a model: what can be told without one.")
@click.option("--scope", help="A part of the vault that recall can be narrowed to.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option("--format", "name", type=click.Choice(list(formats.READERS)), help="Read it as this format.")
@click.option("--actor", help="Who is named in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def record(ctx: click.Context, /, transcript: str, **options: Any) -> int:
    """Read the transcript of an agent's run and log how it really went.

    TRANSCRIPT is a file that Claude Code, Codex, Gemini CLI, opencode, SWE-agent, mini-swe-agent or OpenHands wrote, or
    a list of OpenAI messages; '-' reads stdin. A test, build or lint that passed after the last edit verifies a
    success; without one it is a claimed one. Prints the path of the new episode.
    """
    if options["evidence"] is not None and options["outcome"] is None:
        raise click.UsageError("--evidence goes with --outcome.")
    if options["evidence_ref"] is not None and options["evidence"] is None:
        raise click.UsageError("--evidence-ref goes with --evidence.")
    with _opened(transcript) as handle:
        digest = file_digest(handle, "sha256").hexdigest()
        read = formats.read(handle, transcript, options["name"], options["skip"])
    given = recording.Given(options["task"], options["outcome"], options["evidence"], options["evidence_ref"])
    made = _recordings(read, given, _endpoint(off=options["no_llm"]), transcript, split=options["split"])
    shared = {"transcript_ref": _named(transcript, digest), "scope": options["scope"], "tags": options["tags"] or None}
    for one in made:
        one.values |= {name: value for name, value in shared.items() if value is not None}
    kept = _dry(made) if options["dry_run"] else _stored(ctx, made, options["actor"])
    _show(made, kept, read.format, options, is_many=options["split"] or len(read.runs) > 1)
    return 0


def _opened(transcript: str) -> BufferedReader | BufferedRandom:
    """Open the transcript so that it can be read twice."""
    if transcript == "-":
        spooled = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        shutil.copyfileobj(sys.stdin.buffer, spooled)
        spooled.seek(0)
        return spooled
    try:
        return open(transcript, "rb")
    except OSError as error:
        raise click.UsageError(f"cannot read {transcript}: {error.strerror}") from None


def _endpoint(*, off: bool) -> Endpoint | None:
    if off:
        return None
    from cyberos.record.endpoint import configured

    return configured()


def _named(transcript: str, digest: str) -> str:
    """Name a transcript relative to the home folder, with its digest."""
    if transcript == "-":
        return f"stdin sha256:{digest}"
    path, home = os.path.abspath(transcript), os.path.expanduser("~").rstrip(os.sep)
    if home and path.startswith(home + os.sep):
        path = f"~{path[len(home) :]}"
    return f"{path} sha256:{digest}"


def _recordings(
    read: Transcript, given: recording.Given, endpoint: Endpoint | None, path: str, *, split: bool
) -> list[Recording]:
    """Judge every run; trivial ones are passed over if any other is left. Raises: NothingToRecord."""
    runs = [part for run in read.runs for part in (recording.split(run) if split else [run])]
    if len(runs) > 1 and (given.task is not None or given.outcome is not None):
        raise click.UsageError(f"--task and --outcome are of one run; {path} holds {len(runs)}.")
    made: list[Recording] = []
    last: recording.NothingToRecord | None = None
    for run in runs:
        try:
            made.append(recording.record(read, run, given, endpoint, path))
        except recording.NothingToRecord as error:
            last = error
            if len(runs) > 1:
                output.note(f"passed over run {run.session or '?'}: {error.reason}")
    if not runs:
        raise recording.NothingToRecord(path, "nothing came after the bytes that are skipped", "it was recorded before")
    if not made and last is not None:
        raise last
    return made


def _dry(made: list[Recording]) -> list[tuple[str | None, list[tuple[str, str]]]]:
    """Make every episode without storing it. Raises: InvalidMemory."""
    found: list[tuple[str | None, list[tuple[str, str]]]] = []
    for one in made:
        storable, redacted = made_storable(one.values)
        one.values = storable
        contract.check(Episode(**storable).frontmatter())
        found.append((None, redacted))
    return found


def _stored(
    ctx: click.Context, made: list[Recording], actor: str | None
) -> list[tuple[str | None, list[tuple[str, str]]]]:
    who, writer = output.actor_of(ctx, actor), output.writer_of(ctx)
    found: list[tuple[str | None, list[tuple[str, str]]]] = []
    with writer.transaction():
        for one in made:
            kept = keep(writer, one.values, who)
            one.values, _ = made_storable(one.values)
            found.append((kept.path, kept.redacted))
    for text in writer.notes:
        output.note(f"note: {text}")
    return found


def _show(
    made: list[Recording],
    kept: list[tuple[str | None, list[tuple[str, str]]]],
    name: str,
    options: dict[str, Any],
    *,
    is_many: bool,
) -> None:
    documents = []
    for one, (path, redacted) in zip(made, kept, strict=True):
        for kind, where in redacted:
            output.note(f"redacted a credential ({kind}) in {where}")
        documents.append(_document(one, path, redacted, name))
    if options["as_json"]:
        output.document({"items": documents} if is_many else documents[0])
        return
    for one, document in zip(made, documents, strict=True):
        if document["path"] is not None:
            output.line(document["path"])
        else:
            for key in ("label", *_SHOWN, *_MORE):
                if document[key] not in (None, ""):
                    output.line(f"{key}: {document[key]}")
            for reason in one.why:
                output.line(f"  - {reason}")


def _document(one: Recording, path: str | None, redacted: list[tuple[str, str]], name: str) -> dict[str, Any]:
    values = {"ended": "completed", "evidence": "none", "lesson": ""} | one.values
    found: dict[str, Any] = {"label": one.label} | {key: values.get(key) for key in _SHOWN}
    found |= {"why": made_storable({"why": one.why})[0]["why"]} | {key: values.get(key) for key in _MORE}
    found |= {"format": name, "session": one.session or None, "turns": one.turns}
    return found | {"redacted": sorted({kind for kind, _ in redacted}), "path": path}
