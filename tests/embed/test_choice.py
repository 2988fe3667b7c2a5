from __future__ import annotations

import pytest

from cyberos.core import settings
from cyberos.core.errors import ContractError
from cyberos.embed import choice
from cyberos.embed.base import EmbedderUnavailable


@pytest.mark.parametrize("setting", ["", "MINILM", "minilm:x", "sentence-transformers:", "bert"])
def test_a_setting_that_there_is_not_is_refused_by_name(setting):
    for ask in (choice.available, choice.make):
        with pytest.raises(ContractError, match="must be one of auto, minilm") as caught:
            ask(setting)
        assert repr(setting) in str(caught.value)


def test_none_is_never_there():
    assert not choice.available("none")
    with pytest.raises(EmbedderUnavailable, match="switched off"):
        choice.make("none")


def test_an_embedder_is_kept_warm():
    assert choice.make("hash") is choice.make("hash")


def test_the_vault_says_which(root, monkeypatch):
    monkeypatch.delenv("CYBEROS_EMBEDDER")  # by which the other tests do without
    assert settings.load(root)["embedder"].value == "auto"
    (root / "cyberos.toml").write_text('embedder = "sentence-transformers:/some/model"\n')
    assert settings.load(root)["embedder"].value == "sentence-transformers:/some/model"
    monkeypatch.setenv("CYBEROS_EMBEDDER", "hash")
    assert settings.load(root)["embedder"].value == "hash"
    monkeypatch.setenv("CYBEROS_EMBEDDER", "cloud")
    with pytest.raises(ContractError, match="CYBEROS_EMBEDDER"):
        settings.load(root)
