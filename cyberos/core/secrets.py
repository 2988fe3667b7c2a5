"""Which strings hold a credential: known prefixes only, never entropy, and never the value in an answer.

    scan("export T=ghp_<36 characters>")    -> [Secret(kind="github-token", offset=9)]
    redact("export T=ghp_<36 characters>")  -> ("export T=[redacted:github-token]", ["github-token"])

Searched are three forms: as given; as recall renders it (escape sequences and invisible characters gone, NFKC); and
so rendered with line breaks, and the blanks and backslashes around them, taken out. Documented samples (`...EXAMPLE`),
fillers (`xxxxxxxx`) and URL passwords that are templates or stand for one (`my_password1`) are no credentials.

Source: DESIGN section 8; the vendors' formats, compared with gitleaks. Lengths are floors where they may grow.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from cyberos.core.text import ANSI

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ARMOUR = r"[A-Z0-9 ]{0,40}?PRIVATE ?KEY(?: ?BLOCK)?-----"
_STAND_IN = (
    r"(?i:(?:my|your|the|some|any|new|old|app|db|database|user|super|strong|secure|test|dev|local|root|admin|postgres|"
    r"mysql|redis|mongo|guest|demo|dummy|fake|change|me|foo|bar|baz|pass|word|wd|pwd|pw|secret|token|key|here)[-_.]?)++"
    r"[0-9]{0,3}[!.]?@"
)

# kind, literals of which one must stand in the text, pattern. The last group, if any, is the credential. A leading \b
# is tested on the text as given (`_ALONE`), for prefixes that may end a word (`disk-`) or stand in base64.
# Of two that overlap the first names the credential, of two that start together the upper one.
_RULES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # the header alone counts; the body goes with it, up to its END or as far as it looks like base64
    ("private-key", ("-----BEGIN",), (r"-----BEGIN ?" + _ARMOUR
        + r"(?:[^-]{0,20000}+(?:-(?!----)[^-]{0,20000}+){0,200}+-----END ?" + _ARMOUR
        + r"|(?:(?:\s|\\[nr]){0,40}[A-Za-z0-9+/=]{16,100}+){0,400}+)")),
    ("aws-access-key-id", ("AKIA", "ASIA"), r"\bA[KS]IA[A-Z0-9]{16}"),
    ("aws-secret-key", ("SECRET_ACCESS_KEY", "secret_access_key", "ecretAccessKey"),
        r"(?i:secret_?access_?key)[\\'\"]{0,2}[=:\s]{1,12}[\\'\"]{0,2}([A-Za-z0-9/+]{40})"),
    ("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255}"),
    ("gitlab-token", ("glpat-", "gldt-", "glptt-", "glrt-", "glcbt-", "glsoat-"),
        r"gl(?:pat|dt|ptt|rt|cbt|soat)-[A-Za-z0-9_-]{20,300}(?:\.[A-Za-z0-9]{2,20}){0,2}"),
    ("slack-token", ("xox", "xapp-"), r"(?:xox[abeoprs](?:\.xox[bp])?|xapp-[0-9])-[A-Za-z0-9-]{24,250}"),
    ("slack-webhook", ("hooks.slack.com/",), r"hooks\.slack\.com/[a-z]{5,12}/T[A-Z0-9]{6,14}(?:/\w{6,64}){2,3}"),
    ("discord-webhook", ("/api/webhooks/",), r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,80}"),
    ("stripe-key", ("k_live_", "k_test_", "whsec_"), r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9+/=]{24,250}"),
    ("google-api-key", ("AIza",), r"\bAIza[A-Za-z0-9_-]{35}"),
    ("google-oauth", ("ya29.", "GOCSPX-"), r"ya29\.[A-Za-z0-9_-]{40,500}|GOCSPX-[A-Za-z0-9_-]{28}"),
    ("anthropic-key", ("sk-ant-",), r"sk-ant-[a-z]{2,8}[0-9]{2}-[A-Za-z0-9_-]{24,250}"),
    ("openrouter-key", ("sk-or-v",), r"sk-or-v[0-9]-[0-9a-f]{64}"),
    # the last form is also that of other providers who speak OpenAI's protocol
    ("openai-key", ("sk-",), (r"\bsk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{40,250}"
        r"|[A-Za-z0-9_-]{16,100}T3BlbkFJ[A-Za-z0-9_-]{16,100}|[A-Za-z0-9]{32,200})")),
    ("groq-key", ("gsk_",), r"\bgsk_[A-Za-z0-9]{48,80}"),
    ("xai-key", ("xai-",), r"\bxai-[A-Za-z0-9]{70,100}"),
    ("huggingface-token", ("hf_", "api_org_"), r"\b(?:hf|api_org)_[A-Za-z0-9]{34,60}"),
    ("replicate-token", ("r8_",), r"\br8_[A-Za-z0-9]{37}"),
    ("npm-token", ("npm_",), r"npm_[A-Za-z0-9]{36}"),
    ("pypi-token", ("pypi-AgE",), r"pypi-AgE[A-Za-z0-9_-]{50,500}"),
    ("docker-token", ("dckr_",), r"dckr_[po]at_[A-Za-z0-9_-]{27,40}"),
    ("sendgrid-key", ("SG.",), r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("digitalocean-token", ("_v1_",), r"do[opr]_v1_[a-f0-9]{64}"),
    ("databricks-token", ("dapi",), r"\bdapi[a-f0-9]{32}"),
    ("shopify-token", ("shp",), r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("telegram-token", (":AA",), r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    ("vault-token", ("hvs.", "hvb."), r"\bhv[sb]\.[A-Za-z0-9_-]{24,300}"),
    ("age-key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    # not the key that all storage emulators share; not the token that jwt.io shows, {"sub":"1234567890
    ("azure-storage-key", ("AccountKey=", "AccessKey="), r"Acc\w{3,4}Key=(?!Eby8vdM02)([A-Za-z0-9+/]{40,100}={0,2})"),
    ("jwt", ("eyJ",), (r"eyJ[A-Za-z0-9_-]{10,600}+\.(?!eyJzdWIiOiIxMjM0NTY3ODkw)eyJ[A-Za-z0-9_-]{10,4000}+"
        r"\.[A-Za-z0-9_-]{16,1000}")),
    # six or more; not the user's name, a port, a variable, a template, or letters of one case under 16
    ("url-password", ("://",), (r"://([^\s:/?#@\[\]\"'<>`\\]{0,64}):(?!\1@|[0-9]{2,5}[,;)]|\$[A-Za-z_]\w*@|\$?[{(]"
        r"|%[({]|[a-z]{1,15}@|[A-Z]{1,15}@|[0-9]{0,255}[^A-Za-z0-9]{0,255}@|" + _STAND_IN
        + r")([^\s/?#\"'<>`\\]{6,256})@[\w$%{/\[]")),
)  # fmt: skip
KINDS: tuple[str, ...] = tuple(kind for kind, _, _ in _RULES)
_LITERALS = tuple((literal, rank) for rank, (_, literals, _) in enumerate(_RULES) for literal in literals)
# Every kind but these is one word, without a blank in it, and no shorter than an AWS key's 20 characters.
_APART = ("-----BEGIN", "SECRET_ACCESS_KEY", "secret_access_key", "ecretAccessKey", "://")
_SHORTEST = 20

# What may stand before a word (NUL here): nothing, no letter or digit, an escape written out (`\n`, `%3D`, `\x1b[0m`).
_ALONE = r"(?:^|[^A-Za-z0-9]|\\[abfnrtv]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\[[0-9;]{0,12}m)\0(?![A-Za-z0-9])"
_FILLER = r"(?i)[x*0]{8}|example|placeholder|redacted|changeme|your[-_]"
_PLAIN_WORDS = r"(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-_](?:[A-Z]?[a-z]+|[A-Z]+))*+"
_ODD = re.compile("[^ -~]")
_MARGIN = " \t\\\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
# default-ignorable though Unicode counts them as letters and marks; all of planes 14 to 16 is besides
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10)))


class Secret(NamedTuple):
    """A credential found: its kind and the offset, in characters of the text as given, where it starts."""

    kind: str
    offset: int


def scan(text: str) -> list[Secret]:
    """Find the known credentials in `text`, in the order of their offsets; overlapping ones count once."""
    return [Secret(kind, start) for start, _, kind in _find(text)]


def is_possible(text: str) -> bool:
    """Report whether `text` may hold a known credential: whether it holds what each kind begins with, or may hide it.

    Only for text of which `scan` is asked next; it says yes too often.
    """
    if "\x1b" in text or (not text.isascii() and _folds(text)):
        return True
    line = text if text.isprintable() else "".join([part.strip(_MARGIN) for part in text.splitlines()])
    for literal in _APART:
        if literal in line:
            return True
    short, begin = _words()
    return short.fullmatch(line) is None and any(begin.search(word) for word in line.split() if len(word) >= _SHORTEST)


@cache
def _words() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Make the pattern of a text in which no word is long enough for a credential, and that of how one begins."""
    short = f"[^ ]{{0,{_SHORTEST - 1}}}+"
    rests: dict[str, list[str]] = {}
    for literal, _ in _LITERALS:
        if literal not in _APART:
            rests.setdefault(literal[0], []).append(re.escape(literal[1:]))
    begins = [f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in rests.items()]
    return re.compile(f"(?:{short} )*+{short}"), re.compile("|".join(begins))


def redact(text: str) -> tuple[str, list[str]]:
    """Replace each credential by `[redacted:<kind>]` until `scan` finds none; also give the kind of each."""
    kinds: list[str] = []
    while found := _find(text):
        kinds += [kind for _, _, kind in found]
        for start, end, kind in reversed(found):
            text = f"{text[:start]}[redacted:{kind}]{text[end:]}"
    return text, kinds


def _find(text: str) -> list[tuple[int, int, str]]:
    if not (ranks := _suspects(text)):
        return []
    shown, origin = _rendered(text)
    forms: tuple[tuple[str, Sequence[int]], ...] = ((text, range(len(text))), (shown, origin), _joined(shown, origin))
    spans = sorted(span for form, origin in forms for span in _spans(ranks, text, form, origin))
    merged: list[tuple[int, int, int]] = []
    for span in spans:
        start, rank, end = merged.pop() if merged and span[0] < merged[-1][2] else span
        merged.append((start, rank, max(end, span[2])))
    return [(start, end, _RULES[rank][0]) for start, rank, end in merged]


def _suspects(text: str) -> list[int]:
    """Give the ranks of the rules whose pattern stands in some form of `text`; cheap when none does."""
    shown = text
    if not (text.isascii() and "".join(text.splitlines()).replace("\t", "").isprintable()):
        shown = ANSI.sub("", text)
        if folds := _folds(text):
            shown = "".join([folds.get(char, char) for char in shown])
    line = "".join([part.strip(_MARGIN) for part in shown.splitlines()])
    # an escape may hide what it swallows; ASCII is searched thrice as fast
    searched = (f"{line}\n{text}" if "\x1b" in text else line).encode("ascii", "replace").decode()
    ranks = sorted({rank for literal, rank in _LITERALS if literal in searched})
    return [rank for rank in ranks if any(_pattern(rank).search(form) for form in {line, shown, text})]


def _pattern(rank: int) -> re.Pattern[str]:
    return re.compile(_RULES[rank][2].removeprefix(r"\b"))  # re keeps what it compiled


def _folds(text: str) -> dict[str, str]:
    """Map each character of `text` that recall would not show as it is to what it would show instead."""
    found = set(_ODD.findall(text)).difference(_MARGIN)
    return {char: fold for char in found if (fold := _fold(char)) != char}


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    import unicodedata

    if char.isascii() and char.isprintable():
        return char
    hidden = char in _BLANK or char >= "\U000e0000" or unicodedata.category(char)[0] == "C"
    return "" if hidden else unicodedata.normalize("NFKC", char)


def _rendered(text: str) -> tuple[str, list[int]]:
    """Give `text` as recall would show it, and for each character its offset in `text`."""
    folds = _folds(text)
    escapes = {offset for match in ANSI.finditer(text) for offset in range(*match.span())}
    pieces = [(folds.get(char, char), offset) for offset, char in enumerate(text) if offset not in escapes]
    return "".join([piece for piece, _ in pieces]), [offset for piece, offset in pieces for _ in piece]


def _joined(shown: str, origin: list[int]) -> tuple[str, list[int]]:
    """Take out the line breaks with the blanks and backslashes around them."""
    kept, offset = list[int](), 0
    for line in shown.splitlines(keepends=True):
        end = offset + len(line)
        kept += range(end - len(line.lstrip(_MARGIN)), offset + len(line.rstrip(_MARGIN)))
        offset = end
    return "".join([shown[index] for index in kept]), [origin[index] for index in kept]


def _spans(ranks: list[int], text: str, form: str, origin: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (start, rank, end) in characters of `text` for each credential that these rules find in `form`."""
    for rank in ranks:
        pattern, start = _pattern(rank), 0
        while match := pattern.search(form, start):
            start = match.start() + 1
            match = _trimmed(match, ranks, text, origin)
            first, last = match.span(match.lastindex or 0)
            begin, end, value = origin[first], origin[last - 1] + 1, form[first:last]
            around = f"{text[max(0, begin - 16) : begin]}\0{text[end : end + 1]}"
            is_glued = _RULES[rank][2].startswith(r"\b") and not re.search(_ALONE, around)
            is_list = end - begin > last - first and re.fullmatch("[a-z_-]+", value)  # of words, one a line
            if not (is_glued or is_list or re.search(_FILLER, value[:48])):
                start = match.end()
                yield begin, rank, end


def _trimmed(match: re.Match[str], ranks: list[int], text: str, origin: Sequence[int]) -> re.Match[str]:
    """Give back whole lines of plain words, or the next credential, that a join added to a match whole without them."""
    for cut in range(match.end() - 1, match.start(), -1):
        if not set(_MARGIN).isdisjoint(text[origin[cut - 1] + 1 : origin[cut]]):
            added = match.string[cut : match.end()]
            if re.fullmatch(_PLAIN_WORDS, added) or any(_pattern(rank).match(match.string, cut) for rank in ranks):
                match = match.re.fullmatch(match.string, match.start(), cut) or match
    return match
