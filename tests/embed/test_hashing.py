from __future__ import annotations

import pytest
from embedder_contract import EmbedderContract

from cyberos.embed import choice


class TestHashing(EmbedderContract):
    @pytest.fixture(scope="class")
    def embedder(self):
        return choice.make("hash")
