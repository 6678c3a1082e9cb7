"""A custom runtime of MLServer, as its documentation ("Custom Inference Runtimes") writes it."""

from __future__ import annotations

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

from benchmarks.peer_servers.loaded_model import load, warm_up


class Runtime(MLModel):
    """Named by model-settings.json."""

    async def load(self) -> bool:
        """Load the file that the settings name."""
        self._infer = load(self.settings.parameters.uri)
        warm_up(self._infer, range(1, 2), pixels=32)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answer a request."""
        images = NumpyCodec.decode_input(payload.inputs[0])
        output = NumpyCodec.encode_output("logits", self._infer(images))
        return InferenceResponse(model_name=self.name, outputs=[output])
