"""A command line as a shell reads it, as far as needed to know whose exit code comes out of it.

    cd src && pytest -q 2>&1 | tail -5; echo done
    -> [cd src] && ([pytest -q] | [tail -5]) ; [echo done]

A line is lists joined by `;`, a list is pipelines joined by `&&` and `||`, a pipeline is parts joined by `|`. Groups in
parentheses and braces are read as if they were not grouped, `bash -lc '…'` as what it runs. What this cannot follow
(loops, conditions, functions, traps) makes the line opaque: it still tells what is run, but not what came of it.

Source: POSIX.1-2024, Shell Command Language.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

_LONGEST = 20_000
_DEEPEST = 4
_SHELLS = {"bash", "sh", "zsh", "dash", "ksh"}
# what no exit code can be followed through
_OPAQUE = {"if", "for", "while", "until", "case", "select", "function", "trap", "alias", "eval", "coproc", "exec", "!"}
_OPAQUE |= {"then", "else", "elif", "fi", "do", "done", "esac", "return", "kill"}
_OPERATORS = ("&&", "||", "|&", ";;", ";", "|", "&", "\n")
_REDIRECT = re.compile(r"\d*(?:>>|>\||>&|&>>|&>|<<<|<<-?|<&|<>|>|<)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


@dataclass
class Part:
    """One simple command: its words without quotes, variables set for it, files it is told to write, its here-text."""

    words: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    here: str = ""

    @property
    def name(self) -> str:
        """Give the command's name without its folder."""
        return self.words[0].rsplit("/", 1)[-1] if self.words else ""


class Pipeline(NamedTuple):
    """Parts joined by `|`, and the operator that follows: `&&`, `||`, `;` or `&`."""

    parts: list[Part]
    after: str


@dataclass
class Line:
    """A whole command line. `stops_at_errors` is `set -e`, `fails_in_pipes` is `set -o pipefail`."""

    pipelines: list[Pipeline] = field(default_factory=list)
    is_opaque: bool = False
    stops_at_errors: bool = False
    fails_in_pipes: bool = False


def parse(text: str, depth: int = 0) -> Line:
    """Read a command line; what is above 20,000 characters is opaque."""
    line = Line(is_opaque=len(text) > _LONGEST)
    scanner = _Scanner(text[:_LONGEST].replace("\\\n", " "))
    parts: list[Part] = []
    while True:
        part, operator = scanner.part(line)
        if part.words or part.settings or part.writes:
            parts.append(part)
        if operator in ("|", "|&"):
            continue
        if parts:
            line.pipelines.append(Pipeline(parts, ";" if operator in ("\n", ";;", "") else operator))
            parts = []
        if operator == "":
            break
    line.is_opaque |= scanner.is_lost
    for pipeline in line.pipelines:
        for part in pipeline.parts:
            _heed(line, part)
    return _opened(line, depth)


def _heed(line: Line, part: Part) -> None:
    """Note what a part means for the rest of the line."""
    if part.name in _OPAQUE:
        line.is_opaque = True
    if part.name == "set":
        flags = part.words[1:]
        short = "".join(flag[1:] for flag in flags if flag.startswith("-") and not flag.startswith("--"))
        line.stops_at_errors |= "e" in short or "errexit" in flags
        line.fails_in_pipes |= "pipefail" in flags and not any(flag.startswith("+") for flag in flags)


def _opened(line: Line, depth: int) -> Line:
    """Put what `bash -c '…'` runs in its place, where that is the end of the line."""
    for number, outer in enumerate(line.pipelines):
        found = _script(outer)
        if found is None:
            continue
        inner = parse(found[0], depth + 1) if depth < _DEEPEST else Line(is_opaque=True)
        is_last = number + 1 == len(line.pipelines) and len(outer.parts) == 1
        is_joined = {each.after for each in line.pipelines[:number]} <= {"&&", ";"}
        inner.is_opaque |= line.is_opaque or not (is_last and is_joined and inner.pipelines)
        inner.stops_at_errors |= "e" in found[1]
        if inner.pipelines:
            inner.pipelines[-1] = Pipeline(inner.pipelines[-1].parts, outer.after)
        inner.pipelines = [*line.pipelines[:number], *inner.pipelines, *line.pipelines[number + 1 :]]
        return inner
    return line


def _script(pipeline: Pipeline) -> tuple[str, str] | None:
    """Give what the first part runs, if it is a shell with -c, and its flags."""
    part = pipeline.parts[0]
    if part.name not in _SHELLS:
        return None
    flags = ""
    for place, word in enumerate(part.words[1:], 1):
        if not word.startswith("-"):
            if word == "pipefail":
                continue
            return None
        flags += word[1:] if not word.startswith("--") else ""
        if not word.startswith("--") and "c" in word and place + 1 < len(part.words):
            return part.words[place + 1], flags.replace("c", "").replace("l", "")
    return None


class _Scanner:
    """Walks over the text of a line."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self.is_lost = False
        self._awaited: list[tuple[Part, str]] = []  # here-texts that begin after this line

    def part(self, line: Line) -> tuple[Part, str]:
        """Read one simple command and the operator behind it; the empty operator ends the line."""
        part = Part()
        while self._at < len(self._text):
            operator = next((each for each in _OPERATORS if self._text.startswith(each, self._at)), None)
            redirect = _REDIRECT.match(self._text, self._at)
            mark = self._text[self._at]
            if redirect is not None and (operator is None or redirect.group().startswith("&>")):
                self._redirect(part, redirect.group())
            elif operator is not None:
                self._at += len(operator)
                if operator == "\n":
                    self._heres()
                if not self._is_group_end():
                    line.is_opaque |= operator == "||" and self._opens_group()
                    return part, operator
            elif mark in " \t\r":
                self._at += 1
            elif mark in "()" or (mark in "{}" and self._is_lone()):
                self._group(part, mark)
            elif mark == "#":
                self._at = self._end_of_line()
            else:
                self._word(part)
        return part, ""

    def _is_lone(self) -> bool:
        return self._text[self._at + 1 : self._at + 2] in ("", " ", "\n", ";", "\t", "&", "|", ")", "}")

    def _is_group_end(self) -> bool:
        """Report whether the next thing closes a group, so that the operator before it joins nothing."""
        rest = self._text[self._at :].lstrip(" \t\n")
        return rest[:1] in (")", "}")

    def _opens_group(self) -> bool:
        return self._text[self._at :].lstrip()[:1] in ("(", "{")

    def _group(self, part: Part, mark: str) -> None:
        if mark == "(" and part.words:  # a function, or an array
            self.is_lost = True
        self._at += 1

    def _end_of_line(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end

    def _redirect(self, part: Part, operator: str) -> None:
        self._at += len(operator)
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        word = self._read()
        kind = operator.lstrip("0123456789")
        if kind in ("<<", "<<-"):
            self._awaited.append((part, word))
        elif kind == "<<<":
            part.here += word
        elif ">" in kind and not (kind == ">&" and word[:1] in "0123456789-"):
            part.writes.append(word)

    def _heres(self) -> None:
        """Take the here-texts that begin at this line."""
        for part, end in self._awaited:
            lines: list[str] = []
            while self._at < len(self._text):
                stop = self._end_of_line()
                line = self._text[self._at : stop]
                self._at = min(stop + 1, len(self._text))
                if line.strip() == end:
                    break
                lines.append(line)
            part.here += "\n".join(lines)
        self._awaited = []

    def _word(self, part: Part) -> None:
        start = self._at
        word = self._read()
        if self._at == start:
            self._at += 1
            self.is_lost = True
        elif not part.words and _ASSIGNMENT.match(self._text, start):
            part.settings.append(word)
        else:
            part.words.append(word)

    def _read(self) -> str:
        """Read one word, without its quotes."""
        found: list[str] = []
        while self._at < len(self._text):
            mark = self._text[self._at]
            if mark in " \t\r\n;|&()<>":
                break
            if mark == "\\":
                found.append(self._text[self._at + 1 : self._at + 2])
                self._at += 2
            elif mark in "'\"`":
                found.append(self._quoted(mark))
            elif self._text.startswith("$(", self._at):
                found.append(self._substitution())
            else:
                found.append(mark)
                self._at += 1
        return "".join(found)

    def _quoted(self, mark: str) -> str:
        end = self._at + 1
        found: list[str] = []
        while end < len(self._text) and self._text[end] != mark:
            if self._text[end] == "\\" and mark == '"' and self._text[end + 1 : end + 2] in ('"', "\\", "$", "`"):
                end += 1
            found.append(self._text[end : end + 1])
            end += 1
        self.is_lost |= end >= len(self._text)
        self._at = end + 1
        return "".join(found)

    def _substitution(self) -> str:
        """Pass over `$(…)`, whose own exit code is lost."""
        start, open_ = self._at, 0
        while self._at < len(self._text):
            mark = self._text[self._at]
            open_ += (mark == "(") - (mark == ")")
            self._at += 1
            if mark == ")" and open_ == 0:
                return self._text[start : self._at]
        self.is_lost = True
        return self._text[start:]
