"""A server of KServe's Python SDK, as its documentation writes it: `… kserve_server MODEL PORT`."""

from __future__ import annotations

import sys

from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer

from benchmarks.peer_servers.loaded_model import load, warm_up


class Cnn(Model):
    """The model of the protocol's paths."""

    def load(self) -> bool:
        """Load the model."""
        self._infer = load(sys.argv[1])
        warm_up(self._infer, range(1, 2), pixels=32)
        self.ready = True
        return True

    async def predict(
        self,
        payload: InferRequest,
        headers: dict[str, str] | None = None,  # noqa: ARG002  KServe's signature
        response_headers: dict[str, str] | None = None,  # noqa: ARG002
    ) -> InferResponse:
        """Answer a request."""
        logits = self._infer(payload.inputs[0].as_numpy())
        output = InferOutput(name="logits", shape=list(logits.shape), datatype="FP32")
        output.set_data_from_numpy(logits, binary_data=False)
        return InferResponse(response_id=payload.id or "", model_name=self.name, infer_outputs=[output])


if __name__ == "__main__":
    model = Cnn("cnn")
    model.load()
    server = ModelServer(http_port=int(sys.argv[2]), workers=1, enable_grpc=False, enable_latency_logging=False)
    server.start([model])
