"""Credentials are made here, at run time, from a fixed seed: hosting scanners find none in this repository."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import sys
import unicodedata
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cyberos.core.secrets import KINDS, Secret, redact, scan

ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"
HEX = string.digits + "abcdef"
UPPER = string.ascii_uppercase + string.digits
DASHES = "-" * 5
WORDS = re.compile("[A-Z]?[a-z]+|[A-Z]+")


def run(rng: random.Random, alphabet: str, count: int) -> str:
    return "".join(rng.choices(alphabet, k=count))


def armour(rng: random.Random) -> str:
    name = rng.choice(["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "]) + "PRIVATE" + " KEY"
    body = "\n".join(run(rng, BASE64, 64) for _ in range(6)) + "\n" + run(rng, BASE64, 22) + "=="
    return f"{DASHES}BEGIN {name}{DASHES}\n{body}\n{DASHES}END {name}{DASHES}"


def segment(rng: random.Random, **fields: object) -> str:
    claims = fields | {"n": run(rng, ALNUM, 20)}
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


def web_token(rng: random.Random) -> str:
    return f"{segment(rng, alg='HS256')}.{segment(rng, sub='u')}.{run(rng, URLSAFE, 43)}"


def password(rng: random.Random) -> str:
    return run(rng, ALNUM + "!*-_.~+", rng.randrange(10, 24)) + rng.choice(string.digits) + rng.choice("abcdef")


# What comes before the credential, and how to make one. Only two kinds need something before it.
MAKERS = {
    "private-key": ("", armour),
    "aws-access-key-id": ("", lambda r: r.choice(["AK", "AS"]) + "IA" + run(r, UPPER, 16)),
    "aws-secret-key": ("aws_secret_" + "access_key = ", lambda r: run(r, BASE64, 40)),
    "github-token": ("", lambda r: "gh" + r.choice("pousr") + "_" + run(r, ALNUM, 36)),
    "gitlab-token": ("", lambda r: "gl" + r.choice(["pat", "dt", "rt", "ptt"]) + "-" + run(r, URLSAFE, 20)),
    "slack-token": ("", lambda r: "xo" + f"x{r.choice('bp')}-{run(r, '123456789', 12)}-{run(r, ALNUM, 24)}"),
    "slack-webhook": (
        "https://",
        lambda r: "hooks.sl" + f"ack.com/services/T{run(r, UPPER, 8)}/B{run(r, UPPER, 10)}/{run(r, ALNUM, 24)}",
    ),
    "discord-webhook": (
        "https://",
        lambda r: "disc" + f"ord.com/api/web{'hooks'}/{run(r, '123456789', 18)}/{run(r, URLSAFE, 68)}",
    ),
    "stripe-key": ("", lambda r: r.choice("sr") + "k_" + r.choice(["live", "test"]) + "_" + run(r, ALNUM, 24)),
    "google-api-key": ("", lambda r: "AI" + "za" + run(r, URLSAFE, 34) + r.choice(ALNUM)),
    "google-oauth": (
        "",
        lambda r: r.choice(["GOC" + "SPX-", "ya" + "29." + run(r, URLSAFE, 40)]) + run(r, URLSAFE, 28),
    ),
    "anthropic-key": ("", lambda r: "sk-" + "ant-api03-" + run(r, URLSAFE, 93) + "AA"),
    "openrouter-key": ("", lambda r: "sk-" + "or-v1-" + run(r, HEX, 64)),
    "openai-key": (
        "",
        lambda r: r.choice(
            [
                "sk-" + "proj-" + run(r, URLSAFE, 74) + "T3Blbk" + "FJ" + run(r, URLSAFE, 74),
                "sk-" + "proj-" + run(r, URLSAFE, 48),
                "sk-" + run(r, ALNUM, 20) + "T3Blbk" + "FJ" + run(r, ALNUM, 20),
                "sk-" + run(r, HEX, 32),
            ]
        ),
    ),
    "groq-key": ("", lambda r: "gs" + "k_" + run(r, ALNUM, 52)),
    "xai-key": ("", lambda r: "xa" + "i-" + run(r, ALNUM, 80)),
    "huggingface-token": ("", lambda r: "h" + "f_" + run(r, string.ascii_letters, 34)),
    "replicate-token": ("", lambda r: "r" + "8_" + run(r, ALNUM, 37)),
    "npm-token": ("", lambda r: "np" + "m_" + run(r, ALNUM, 36)),
    "pypi-token": ("", lambda r: "py" + "pi-AgEIcHlwaS5vcmc" + run(r, URLSAFE, 150)),
    "docker-token": ("", lambda r: "dckr" + "_pat_" + run(r, URLSAFE, 27)),
    "sendgrid-key": ("", lambda r: "S" + f"G.{run(r, URLSAFE, 22)}.{run(r, URLSAFE, 42)}{r.choice(ALNUM)}"),
    "digitalocean-token": ("", lambda r: "do" + r.choice("opr") + "_v1_" + run(r, HEX, 64)),
    "databricks-token": ("", lambda r: "da" + "pi" + run(r, HEX, 32)),
    "shopify-token": ("", lambda r: "sh" + "pat_" + run(r, HEX, 32)),
    "telegram-token": ("", lambda r: run(r, "123456789", 10) + ":A" + "A" + run(r, URLSAFE, 32) + r.choice(ALNUM)),
    "vault-token": ("", lambda r: "hv" + "s." + run(r, URLSAFE, 90)),
    "age-key": ("", lambda r: "AGE-SECRET" + "-KEY-1" + run(r, UPPER, 58)),
    "azure-storage-key": ("AccountName=x;Account" + "Key=", lambda r: run(r, BASE64, 86) + "=="),
    "jwt": ("", web_token),
    "url-password": ("postgres://" + "app:", password),
}


def made(kind: str, count: int = 50) -> list[tuple[str, str, str]]:
    """Give (before, credential, after): a sentence around each credential."""
    rng = random.Random(zlib.crc32(kind.encode()))
    prefix, make = MAKERS[kind]
    after = "@db.internal/x as said" if kind == "url-password" else " as said, then 3 more"
    return [(f"the value is {prefix}", make(rng), after) for _ in range(count)]


def split(rng: random.Random, text: str, fillers: list[str]) -> str:
    """Put fillers at three places inside of `text`, which is never at a blank of its own."""
    places = sorted(rng.sample([n for n in range(1, len(text)) if not text[n - 1 : n + 1].isspace()], 3), reverse=True)
    for place in places:
        text = text[:place] + rng.choice(fillers) + text[place:]
    return text


def wide(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


FORMS = {
    "plain": lambda rng, text: text,
    "zero-width": lambda rng, text: split(
        rng, text, ["\u200b", "\u2060", "\u00ad", "\ufeff", "\u202e", "\ufe0f", "\U000e0041"]
    ),
    "full-width": lambda rng, text: wide(text),
    "ansi": lambda rng, text: split(rng, text, ["\x1b[0m", "\x1b[38;5;12m", "\x1b]0;title\x07", "\x1b(B"]),
    "line-broken": lambda rng, text: split(rng, text, ["\n", "\n    ", "\r\n\t", " \\\n  ", "\u2028"]),
    "broken and hidden": lambda rng, text: split(rng, text, ["\u200b\n \u200b", "\x1b[0m\n", "\n\u00a0"]),
}


def test_every_kind_has_a_maker():
    assert list(MAKERS) == list(KINDS)
    assert len(KINDS) == len(set(KINDS)) >= 14


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_finds_each_kind_in_each_form_where_it_starts(kind, form):
    rng = random.Random(7)
    for before, credential, after in made(kind):
        text = before + FORMS[form](rng, credential) + after
        assert scan(text) == [Secret(kind, len(before))], ascii(text)


@pytest.mark.parametrize("form", ["plain", "zero-width", "full-width", "ansi"])
@pytest.mark.parametrize("kind", KINDS)
def test_redaction_takes_the_whole_credential_and_nothing_else(kind, form):
    rng = random.Random(8)
    for before, credential, after in made(kind):
        clean, kinds = redact(before + FORMS[form](rng, credential) + after)
        assert (clean, kinds) == (f"{before}[redacted:{kind}]{after}", [kind])


@pytest.mark.parametrize("kind", KINDS)
def test_finds_a_broken_credential_between_lines_of_words(kind):
    rng = random.Random(9)
    trail = "@host" if kind == "url-password" else ""
    for before, credential, _ in made(kind):
        text = f"found\n{before}{FORMS['line-broken'](rng, credential)}{trail}\nThen we went on"
        assert scan(text) == [Secret(kind, 6 + len(before))], ascii(text)
        clean, kinds = redact(text)
        assert (scan(clean), kinds) == ([], [kind])
        # a last line that reads like words is taken for words
        left = clean.removeprefix(f"found\n{before}[redacted:{kind}]").removesuffix(f"{trail}\nThen we went on")
        assert all(WORDS.fullmatch(word) for word in re.split(r"[\s\\_-]+", left) if word)
        assert len(left) < 16


@pytest.mark.parametrize("kind", KINDS)
def test_many_in_one_text_are_told_apart(kind):
    lines = [f"{before}{credential}{after}" for before, credential, after in made(kind, 5)]
    text = "\n".join(lines)
    assert [secret.kind for secret in scan(text)] == [kind] * 5
    assert redact(text)[1] == [kind] * 5


def test_a_list_of_bare_tokens_is_one_hit_each():
    bare = [kind for kind in KINDS if not MAKERS[kind][0]]
    rng = random.Random(5)
    for _ in range(20):
        rng.shuffle(bare)
        text = "\n".join(made(kind, 1)[0][1] for kind in bare)
        assert [secret.kind for secret in scan(text)] == bare
        assert redact(text) == ("\n".join(f"[redacted:{kind}]" for kind in bare), bare)


@pytest.mark.parametrize("lead", ["\\n", "\\t", "%3D", "\\u001b[32m", "\\x1b[0m", "=", "'", "_", "(", "é"])
@pytest.mark.parametrize("kind", ["openai-key", "aws-access-key-id", "github-token", "telegram-token"])
def test_an_escape_written_out_is_no_part_of_the_word(kind, lead):
    for _, credential, _ in made(kind):
        assert scan(f"x{lead}{credential}\\n")[0].kind == kind


def test_a_token_in_a_url_is_named_for_what_it_is():
    _, token, _ = made("github-token", 1)[0]
    clean, kinds = redact(f"https://x-access-token:{token}@github.com/a/b")
    assert (clean, kinds) == ("https://x-access-token:[redacted:github-token]@github.com/a/b", ["github-token"])


def test_a_private_key_goes_with_its_body_even_cut_short_or_escaped():
    key = armour(random.Random(1))
    assert redact(f"a {key} b")[0] == "a [redacted:private-key] b"
    assert redact("a " + key.replace("\n", "\\n") + " b")[0] == "a [redacted:private-key] b"
    assert redact("a " + key[:300])[0] == "a [redacted:private-key]"
    header = key.split("\n")[0]
    assert redact(f"grep for {header} in it")[0] == "grep for [redacted:private-key] in it"


def test_an_escape_that_swallows_a_letter_hides_nothing():
    _, token, _ = made("github-token", 1)[0]
    assert scan(f"é\x1b{token}") == [Secret("github-token", 2)]


SHA = "9fceb02d0ae598e95dc970b74767f19372d61af8"
NEAR_MISSES = {
    "git sha": f"commit {SHA} and {SHA[:12]}",
    "sha-256": "sha256:" + SHA + SHA[:24],
    "uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "package name": "sk-learn, sk-container-id-1, scikit-learn; disk-proj-2024-Feature-branch-with-a-name-of-many-words",
    "prefixes alone": " ".join(
        a + b
        for a, b in map(str.split, ["gh p_", "gh p_abc", "github_ pat_", "ey J", "sk- ant-", "sk- proj-", "AK IA"])
    ),
    "prefix at the end of a line": "tokens begin with gh" + "p_\nand then follow thirtysix characters of base62",
    "names on lines": "sorg" + "hr\ndorg" + "hr_lwork\n\nsorgqr\ndorgqr\n\nsorgrq\ndorgrq\n\nsormqr\ndormqr",
    "capitals on lines": "AS\nASDA\nAS" + "IA\nASSOCIATES\nAT\nATHLETA\nATTORNEY",
    "documented sample": "AK" + "IAIOSFODNN7EXAMPLE",
    "documented secret": "AWS_SECRET_" + "ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "filler": "gh" + "p_" + "x" * 36 + " sk-" + "ant-api03-" + "X" * 95 + " AK" + "IA" + "X" * 16,
    "your token": "glp" + "at-your-personal-access-token sk-" + "ant-api03-your-key-goes-right-here",
    "sample webhook": "hooks.sl" + "ack.com/services/T00000000/B00000000/" + "X" * 24,
    "jwt.io": ".".join(
        base64.urlsafe_b64encode(part).decode().rstrip("=")
        for part in (
            b'{"alg":"HS256","typ":"JWT"}',
            b'{"sub":"1234567890","name":"John Doe","iat":1516239022}',
            b"s" * 32,
        )
    ),
    "emulator": "Account" + "Key=Eby8vdM02" + "a" * 77 + "==",
    "public key": f"{DASHES}BEGIN PUBLIC KEY{DASHES}\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n{DASHES}END PUBLIC KEY{DASHES}",
    "certificate": f"{DASHES}BEGIN CERTIFICATE{DASHES}\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n{DASHES}END CERTIFICATE{DASHES}",
    "telegram time": "12:34:AA:bb:cc",
}
PLACEHOLDER_PASSWORDS = [
    "password", "Password1", "PASSWORD", "pass", "secret", "mysecretpassword", "my_db_password123", "changeme", "hunter",
    "${DB_PASSWORD}", "$DB_PASSWORD", "$(cat pw)", "{password}", "{{ pw }}", "%(password)s", "<password>", "***", "********",
    "xxxxxxxx", "app", "example123", "your-Password9", "[redacted:url-password]", "8080", "...",
]  # fmt: skip


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_no_credentials(name):
    assert scan(NEAR_MISSES[name]) == []
    assert redact(NEAR_MISSES[name]) == (NEAR_MISSES[name], [])


@pytest.mark.parametrize("word", PLACEHOLDER_PASSWORDS)
def test_a_url_password_that_stands_for_one_is_no_credential(word):
    assert scan(f"postgres://app:{word}@localhost:5432/x") == []
    assert scan(f"set\npostgres://app:{word}@localhost\nthen") == []


@pytest.mark.parametrize("word", ["Tr0ub4dor", "correct-horse", "Password2024!", "a1b2c3", "he%2F%2Fo", "Tr0ub@4dor"])
@pytest.mark.parametrize("host", ["localhost", "10.0.0.1:5432/x", "$HOST", "${HOST}/x", "[::1]/x", "/x?host=/run"])
def test_a_url_password_that_looks_real_is_one(word, host):
    assert redact(f"amqp://app:{word}@{host}") == (f"amqp://app:[redacted:url-password]@{host}", ["url-password"])


def test_urls_that_only_look_so_across_a_line_break():
    assert scan("# see http://localhost:8080\n@app.route('/x')\n") == []
    assert scan("(http://127.0.0.1:8000).\n@pytest.fixture\n") == []
    assert scan("git clone ssh://git@github.com:22/a/b and mail a@b.org") == []


def test_base64_images_are_no_credentials():
    rng = random.Random(3)
    for _ in range(3):
        image = base64.b64encode(rng.randbytes(60_000)).decode()
        assert scan(f"![x](data:image/png;base64,{image})") == []
        assert scan("\n".join(image[n : n + 76] for n in range(0, len(image), 76))) == []


def test_every_character_that_is_drawn_as_nothing_is_passed_over():
    _, token, _ = made("github-token", 1)[0]
    hidden = [chr(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) == "Cf"]
    hidden += "\u2065\ue000\ufff0\u034f\u115f\u1160\u17b4\u180b\u3164\ufe00\uffa0\x00\x1f\U000e0100\U000e0fff"
    for char in hidden:
        assert redact(token[:9] + char + token[9:]) == ("[redacted:github-token]", ["github-token"]), ascii(char)


def test_a_hit_says_nothing_of_the_value():
    before, token, after = made("github-token", 1)[0]
    assert token[6:] not in repr(scan(before + token + after))


PIECES = st.sampled_from(
    [
        "-----BEGIN ",
        "PRIVATE KEY-----",
        "-----END ",
        "gh" + "p_",
        "sk-",
        "ey" + "J",
        "://",
        "a:",
        "@h",
        "A" * 40,
        "9z" * 30,
        ".",
    ]
    + [
        "\n",
        "\r\n  ",
        "\\",
        "\x1b[0m",
        "\x1b]",
        "\u200b",
        "\ufb03",
        "\u2100",
        "\ud800",
        "é",
        " ",
        "=",
        "Account" + "Key=",
        "\x85",
    ]
    + ["Acc", "x" * 9, "[redacted:jwt]", "password", "\uff41", "AK" + "IA", "0123456789:A" + "A"]
    + [credential for kind in KINDS for _, credential, _ in made(kind, 1)]
)
ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.lists(PIECES, max_size=12).map("".join)


@given(ANY_TEXT)
def test_scan_never_raises_and_stays_inside_the_text(text):
    hits = scan(text)
    assert all(hit.kind in KINDS and 0 <= hit.offset < len(text) for hit in hits)
    assert [hit.offset for hit in hits] == sorted({hit.offset for hit in hits})


@given(ANY_TEXT)
def test_redaction_leaves_nothing_to_find(text):
    clean, kinds = redact(text)
    assert scan(clean) == []
    assert bool(kinds) == bool(scan(text))
    assert all(f"[redacted:{kind}]" in clean for kind in kinds)
