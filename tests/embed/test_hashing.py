from __future__ import annotations

import pytest
from embedder_contract import EmbedderContract

from cyberos.embed import choice


class TestHashing(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return choice.make("hash")
