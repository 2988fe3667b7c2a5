"""What a command line did to the tree and found out about it, in order: changes, and checks with what came of them.

    pytest -q                     exit 0 -> Check test passed
    cd src && pytest -q           exit 1 -> Check test failed
    pytest -q | tail -5           exit 0 -> Check test unknown: the exit code is that of `tail`
    pytest -q || true             exit 0 -> Check test unknown
    sed -i s/a/b/ x.py && pytest  exit 0 -> Change x.py; Check test passed

An exit code that cannot be the check's says nothing. What the check printed may still say that it failed, or take
back that it passed (`no tests ran`); it never says that it passed.

Source: DESIGN section 7; POSIX.1-2024 for exit codes above 125.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core.text import ANSI
from cyberos.record import changes, checks, shell

if TYPE_CHECKING:
    from cyberos.record.shell import Line, Part
    from cyberos.record.transcript import Command

PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"


class Mark(NamedTuple):
    """A change (`kind` is empty) or a check; `why` says how its status is known, or why it is not."""

    kind: str
    status: str
    why: str
    tool: str = ""
    words: tuple[str, ...] = ()


# commands whose failure is not to be feared: a code other than 0 is the check's beside them
_NEUTRAL = {"cd", "export", "source", ".", "set", "echo", "printf", "mkdir", "ls", "pwd", "true", ":", "date", "cat"}
_NEUTRAL |= {"sleep", "clear", "unset", "ulimit", "head", "tail"}
_NEUTRAL |= {"which", "env", "shopt", "conda", "nvm", "wc", "sync", "umask", "pushd", "popd", "tee", "touch"}

_FAILURES = re.compile(
    r"""^=+.*\b[1-9]\d*\ (?:failed|errors?)\b.*=+$ | ^[1-9]\d*\ failed\b.*\bin\ [\d.]+ | ^[1-9]\d*\ errors?\ in\ [\d.]+s
    | ^FAILED\ \((?:failures|errors)= | ^test\ result:\ FAILED | ^Tests:\s.*\b[1-9]\d*\ failed
    | ^\s*Tests\s+[1-9]\d*\ failed
    | ^\s*Test\ Files\s+[1-9]\d*\ failed | ^\s*---\ FAIL: | ^\s?FAIL\s+\S | ^\s*[1-9]\d*\ failing\b
    | Failed!\s+-\ Failed:\s+[1-9]
    | \bBUILD\ (?:FAILED|FAILURE)\b | ^\d+\ examples?,\ [1-9]\d*\ failures? | ^FAILURES!$ | ELIFECYCLE
    | ^npm\ ERR!\ Test\ failed
    | ^(?:g?make)(?:\[\d+\])?:\ \*\*\*\ .*\bError\ \d | ^error(?:\[E\d+\])?:\ (?:aborting|could\ not\ compile)
    | ^Found\ [1-9]\d*\ errors?\b | ^✖\ [1-9]\d*\ problems?\ \([1-9] | ^\s*[1-9]\d*\ fail$ | ^not\ ok\ \d""",
    re.MULTILINE | re.VERBOSE,
)
_NOTHING = re.compile(
    r"""\bno\ tests\ ran\b | \bcollected\ 0\ items\b(?!\ /) | ^Ran\ 0\ tests | ^\s*0\ passing\b
    | \bNo\ tests?\ (?:files?\ )?found\b
    | \bNO\ TESTS\ RAN\b | \bno\ test\ specified\b | ^testing:\ warning:\ no\ tests\ to\ run
    | ^0\ tests?\ (?:completed|passed)
    | ^No\ tests\ (?:were\ )?(?:executed|to\ run) | \bNo\ tests\ were\ found | ^\#\ tests\ 0$""",
    re.MULTILINE | re.VERBOSE,
)
_RAN = re.compile(r"^ok\s+\S|^test result: ok\. [1-9]|\b[1-9]\d* passed\b|^Ran [1-9]", re.MULTILINE)
_EMPTY = re.compile(r"\[no test files\]|^test result: ok\. 0 passed", re.MULTILINE)
_NOT_RUN = re.compile(
    r"""command\ not\ found | No\ module\ named\ ['"]?(?:pytest|unittest|tox|nox|mypy|ruff|flake8|pylint|coverage)\b
    | No\ rule\ to\ make\ target | [Mm]issing\ script | is\ not\ recognized\ as | could\ not\ find\ `Cargo.toml`
    | no\ test\ specified
    | cd:\ .*(?:No\ such\ file|[Nn]ot\ a\ directory) | can't\ cd\ to | can't\ open\ file
    | No\ such\ file\ or\ directory:\ '?package
    | ENOENT.*package\.json | [Nn]o\ such\ file\ or\ directory:\ .*package\.json | Couldn't\ find\ a\ package\.json
    | unrecognized\ arguments | Operation\ not\ permitted\ \(os\ error | sandbox\ (?:denied|error)
    | failed\ in\ sandbox""",
    re.VERBOSE,
)
_NO_VERDICT = {124: "it timed out", 126: "it could not be run", 127: "it was not found", 130: "it was interrupted"}
_NO_VERDICT |= {137: "it was killed", 143: "it was killed", 141: "its reader went away"}
_PYTEST = {4: "pytest was called wrongly", 5: "no test was found", 3: "pytest itself broke"}


def marks(command: Command) -> list[Mark]:
    """Give what a command changed and checked, in order."""
    line = shell.parse(command.text)
    target, code = _target(line)
    found: list[Mark] = []
    for number, pipeline in enumerate(line.pipelines):
        named = [_check(part) for part in pipeline.parts]
        is_checked = any(named)
        for place, (part, check) in enumerate(zip(pipeline.parts, named, strict=True)):
            changed = changes.changed(part, is_output=is_checked)
            if changed and command.state != "refused":
                found.append(Mark("", "", changed))
            if check is not None:
                status, why = _status(line, (number, place), check, command, target if code else None)
                found.append(Mark(check.kind, status, why, check.tool, tuple(part.words)))
    return _ambiguous(found)


def _check(part: Part) -> checks.Check | None:
    check = checks.check_of(part.words)
    if check is None and checks.is_test_script(part.words):
        check = checks.Check(checks.TEST, part.words[0])
    return check


def _ambiguous(found: list[Mark]) -> list[Mark]:
    """Of several checks of one line that share a code other than 0, say that one of them failed."""
    failed = [mark for mark in found if mark.status == FAILED]
    if len(failed) <= 1:
        return found
    return [
        mark._replace(why=f"{mark.why}; one of {len(failed)} checks of that line") if mark.status == FAILED else mark
        for mark in found
    ]


def _target(line: Line) -> tuple[tuple[int, int], bool]:
    """Find whose exit code a last `exit $?`, `exit ${PIPESTATUS[0]}` or `exit $rc` hands on; take that part off."""
    nothing = ((-1, -1), False)
    if len(line.pipelines) < 2:  # noqa: PLR2004
        return nothing
    last = line.pipelines[-1].parts
    if len(last) != 1 or last[0].words[:1] != ["exit"] or len(last[0].words) != 2:  # noqa: PLR2004
        return nothing
    wanted = last[0].words[1].strip('"')
    number = len(line.pipelines) - 2
    if wanted not in ("$?", "${PIPESTATUS[0]}"):
        name = wanted.strip("${}")
        for place in range(number, 0, -1):
            settings = line.pipelines[place].parts[0].settings
            if len(settings) == 1 and not line.pipelines[place].parts[0].words and settings[0].startswith(f"{name}="):
                wanted, number = settings[0].partition("=")[2], place - 1
                break
    if wanted not in ("$?", "${PIPESTATUS[0]}"):
        return nothing
    place = 0 if "PIPESTATUS" in wanted else len(line.pipelines[number].parts) - 1
    return (number, place), line.pipelines[number].after == ";"


def _status(
    line: Line, at: tuple[int, int], check: checks.Check, command: Command, target: tuple[int, int] | None
) -> tuple[str, str]:
    output = ANSI.sub("", command.output)
    if command.state == "refused":
        return UNKNOWN, "it was not run"
    if command.state not in ("done", "failed"):
        return UNKNOWN, f"the transcript leaves it {command.state}"
    code = 1 if command.state == "failed" else command.exit_code
    problem = "the transcript has no exit code" if code is None else _unsaid(code, check, output)
    if problem is None and code is not None:
        problem = _foreign(line, at, code, target)
    if problem is not None:
        if _FAILURES.search(output) and not _NOT_RUN.search(output):
            return FAILED, "by what it printed"
        return UNKNOWN, problem
    said = f"exit {command.exit_code}" if command.exit_code is not None else "an error"
    if code != 0:
        return FAILED, said
    if not check.can_fail:
        return UNKNOWN, "it is told never to fail"
    if _FAILURES.search(output):
        return UNKNOWN, "exit 0, but it printed a failure"
    return PASSED, said


def _unsaid(code: int, check: checks.Check, output: str) -> str | None:
    """Say why a code tells nothing of a check's verdict, or None."""
    if code in _NO_VERDICT or code < 0:
        return _NO_VERDICT.get(code, "it was killed")
    if check.tool in ("pytest", "py.test") and code in _PYTEST:
        return _PYTEST[code]
    if code and _NOT_RUN.search(output):
        return "it could not be run"
    if check.kind == checks.TEST and not _RAN.search(output) and (_NOTHING.search(output) or _EMPTY.search(output)):
        return "no test was run"
    return None


def _foreign(line: Line, at: tuple[int, int], code: int, target: tuple[int, int] | None) -> str | None:
    """Say why the line's exit code cannot be told to be that of the part at this place, or None."""
    number, place = at
    if line.is_opaque:
        return "its exit code is lost in a loop, a condition or a trap"
    if target is not None:
        return None if at == target and _is_reached(line, number) else "the exit code is that of another command"
    pipeline = line.pipelines[number]
    if place < len(pipeline.parts) - 1 and not line.fails_in_pipes:
        return f"the exit code is that of `{pipeline.parts[-1].name}`, to which its output goes"
    if pipeline.after == "&":
        return "it runs in the background"
    return _foreign_pass(line, number) if code == 0 else _foreign_fail(line, number)


def _list_of(line: Line, number: int) -> tuple[int, int]:
    """Give the first and the last pipeline of the and-list that a pipeline stands in."""
    first = last = number
    while first > 0 and line.pipelines[first - 1].after in ("&&", "||"):
        first -= 1
    while line.pipelines[last].after in ("&&", "||") and last + 1 < len(line.pipelines):
        last += 1
    return first, last


def _is_reached(line: Line, number: int) -> bool:
    first, _ = _list_of(line, number)
    leaves = any(each.parts[0].name in ("exit", "false") for each in line.pipelines[:number])
    return not leaves and all(each.after == "&&" for each in line.pipelines[first:number])


def _foreign_pass(line: Line, number: int) -> str | None:
    first, last = _list_of(line, number)
    after = line.pipelines[number:last]
    if not all(each.after == "&&" for each in line.pipelines[first:number]):
        return "it may not have been run"
    if any(each.parts[0].name in ("exit", "false") for each in line.pipelines[:first]):
        return "it may not have been run"
    if _is_guarded(line, number):
        return None
    if any(each.after == "||" for each in after):
        return "its failure is caught by `||`"
    if last + 1 < len(line.pipelines) and not (line.stops_at_errors and last == number):
        return f"the exit code is that of `{line.pipelines[-1].parts[-1].name}`, which comes after"
    return None


def _is_guarded(line: Line, number: int) -> bool:
    """Report whether the line ends with an error where this pipeline fails: `pytest || exit 1`."""
    return line.pipelines[number].after == "||" and _leaves(line.pipelines[number + 1].parts[0])


def _leaves(part: Part) -> bool:
    return part.name == "false" or (part.name == "exit" and part.words[1:] not in ([], ["0"], ["$?"]))


def _foreign_fail(line: Line, number: int) -> str | None:
    first, last = _list_of(line, number)
    if last + 1 < len(line.pipelines) and not line.stops_at_errors and not _is_guarded(line, number):
        return f"the exit code is that of `{line.pipelines[-1].parts[-1].name}`, which comes after"
    others = [*line.pipelines[first:number], *line.pipelines[number + 1 :]]
    for other in others:
        for part in other.parts:
            if part.words and part.name not in _NEUTRAL and _check(part) is None and not _leaves(part):
                return f"it may be `{part.name}` that failed"
    return None
