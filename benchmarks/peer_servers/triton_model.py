"""The class of `model.py` for tritonserver's Python backend: joins what its dynamic batcher took.

Source: triton-inference-server/python_backend, README.md, "execute".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # pyright: ignore[reportMissingImports]  of the backend

from benchmarks.peer_servers.loaded_model import load, warm_up


class TritonPythonModel:
    """One instance."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the file next to model.py."""
        folder = Path(args["model_repository"]) / args["model_version"]
        self._infer = load(str(folder / "model.pt"))
        warm_up(self._infer, range(1, 17), pixels=32)

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer the requests of a batch."""
        arrays = [pb_utils.get_input_tensor_by_name(request, "images").as_numpy() for request in requests]
        logits = self._infer(np.concatenate(arrays))
        parts = np.split(logits, np.cumsum([len(array) for array in arrays])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("logits", part)]) for part in parts]
