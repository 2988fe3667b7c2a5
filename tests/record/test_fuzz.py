"""No input brings a reader down: whatever is in a file, it is read or refused as an unknown format."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cyberos.record import evidence, formats
from cyberos.record.formats import UnknownFormat
from cyberos.record.recording import duration_ms, split

REAL = Path(__file__).parent / "transcripts" / "real"
WHOLE = {file.name: file.read_bytes() for file in sorted(REAL.iterdir())}

# the words that formats are made of, so that what is drawn gets past the first look
KEYS = """type role content message messages text timestamp sessionId session_id uuid payload item id name input arguments
call_id output exit_code status tool_use_id is_error toolUseResult usage parts part state metadata info history trajectory
action observation args extras cause source instance_id tool_calls function toolCalls result isSidechain part sessionID
projectHash subtype info exit_status model_stats extra returncode error""".split()  # noqa: SIM905
VALUES = """user assistant tool system message response_item event_msg session_meta function_call function_call_output
tool_use tool_result text item.completed command_execution run edit gemini result bash Bash Edit run_shell_command
token_count user_message turn.completed summary error command exec_command""".split()  # noqa: SIM905
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(VALUES) | st.text(max_size=12)
ANY = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=20,
)


def survive(blob: bytes, name: str | None = None) -> None:
    try:
        found = formats.read(io.BytesIO(blob), "x", name)
    except UnknownFormat:
        return
    for run in found.runs:
        for part in split(run):
            assert evidence.weigh(part.steps).why
            assert (duration_ms(part) or 0) >= 0
        assert run.tokens is None or run.tokens >= 0
        assert all(turn.text is not None for turn in run.turns)


@pytest.mark.parametrize("name", list(formats.READERS))
@settings(max_examples=60)
@given(values=st.lists(ANY, max_size=5), is_document=st.booleans())
def test_any_values_in_any_format(name, values, is_document):
    text = json.dumps(values, indent=1) if is_document else "\n".join(json.dumps(value) for value in values)
    survive(text.encode("utf-8", "surrogatepass"), name)


@settings(max_examples=60)
@given(value=ANY)
def test_any_document(value):
    survive(json.dumps(value).encode("utf-8", "surrogatepass"))


@settings(max_examples=100)
@given(blob=st.binary(max_size=200))
def test_any_bytes(blob):
    survive(blob)


@settings(max_examples=150)
@given(name=st.sampled_from(sorted(WHOLE)), data=st.data())
def test_a_real_file_cut_off_and_with_bytes_changed(name, data):
    blob = bytearray(WHOLE[name][: data.draw(st.integers(0, len(WHOLE[name])))])
    for _ in range(data.draw(st.integers(0, 4))):
        if blob:
            blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    survive(bytes(blob))


@settings(max_examples=100)
@given(name=st.sampled_from(sorted(WHOLE)), data=st.data())
def test_a_real_file_with_values_of_another_shape(name, data):
    """Every value of a line may become any other: the place is drawn, and the value."""
    lines = WHOLE[name].decode().splitlines()
    if not name.endswith(".jsonl"):
        lines = [json.dumps(json.loads(WHOLE[name]))]
    number = data.draw(st.integers(0, len(lines) - 1))
    value = json.loads(lines[number])
    at = value
    while isinstance(at, dict | list) and at:
        keys = sorted(at) if isinstance(at, dict) else range(len(at))
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            at[key] = data.draw(ANY)
            break
        at = at[key]
    lines[number] = json.dumps(value)
    survive("\n".join(lines).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "blob", [b"[" * 200_000, b'{"a":' * 100_000, b'{"messages":' + b"[" * 100_000, b'{"a":1}\n' + b"[" * 200_000]
)
def test_deep_nesting(blob):
    survive(blob)


_READ = """
import resource, sys
from cyberos.record import formats
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open(sys.argv[1], "rb") as handle:
    found = formats.read(handle, "x")
print(sum(len(run.steps) for run in found.runs), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("shape", ["lines", "document"])
def test_a_large_file_is_not_held_in_memory(tmp_path, shape):
    """40 MB of messages cost less than their own size."""
    file = tmp_path / "large"
    message = {"role": "assistant", "content": "x" * 20_000}
    with file.open("w") as handle:
        handle.write("[" if shape == "document" else "")
        for number in range(2_000):
            text = json.dumps(message | {"content": f"{number} {message['content']}"})
            handle.write(text + (("," if number < 1_999 else "]") if shape == "document" else "") + "\n")
    done = subprocess.run([sys.executable, "-c", _READ, str(file)], capture_output=True, text=True, check=True)
    steps, grown_mib = map(int, done.stdout.split())
    assert steps == 2_000
    assert grown_mib < 40
