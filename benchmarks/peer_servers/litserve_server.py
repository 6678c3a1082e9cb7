"""A server of LitServe, as its documentation writes it: `python -m benchmarks.peer_servers.litserve_server MODEL PORT`.

LitServe does not know the protocol; the API reads and writes its JSON.
"""

from __future__ import annotations

import sys
from typing import Any

import litserve
import numpy as np

from benchmarks.peer_servers.loaded_model import load, warm_up


class Api(litserve.LitAPI):
    """Runs in a worker process."""

    def setup(self, device: str) -> None:  # noqa: ARG002  LitServe's signature
        """Load the model."""
        self._infer = load(sys.argv[1])
        warm_up(self._infer, range(1, 2), pixels=32)

    def decode_request(self, request) -> np.ndarray:  # noqa: ANN001  LitServe reads a type as that of the body
        """Return the images."""
        [images] = request["inputs"]
        return np.array(images["data"], np.float32).reshape(images["shape"])

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the logits."""
        return self._infer(x)

    def encode_response(self, output: np.ndarray) -> dict[str, Any]:
        """Return the answer."""
        tensor = {"name": "logits", "datatype": "FP32", "shape": list(output.shape), "data": output.ravel().tolist()}
        return {"model_name": "cnn", "outputs": [tensor]}


if __name__ == "__main__":
    server = litserve.LitServer(Api(api_path="/v2/models/cnn/infer"), accelerator="cpu", devices=1)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, log_level="error")
