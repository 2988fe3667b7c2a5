"""The same forward pass by onnxruntime, which runs the graph in the weights' own file.

    input_ids, attention_mask, token_type_ids (n, length) int64 -> last_hidden_state (n, length, 384) float32

Source: the graph's inputs and outputs; onnxruntime's `SessionOptions`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cyberos.embed.forward import unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray


def forward(path: str) -> Callable[[Sequence[Sequence[int]]], NDArray[np.float32]]:
    """Give a function that does what `forward.forward` does. Any number of threads may call it."""
    import numpy as np

    # read when it is loaded: else it keeps a device id and a database of events in the user's cache folder
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the caller has a thread for each core
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        ids = np.zeros((len(texts), max(map(len, texts))), np.int64)
        mask = np.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = session.run(None, feed)
        return unit(np.einsum("nld,nl->nd", hidden, mask.astype(hidden.dtype)))

    return run
