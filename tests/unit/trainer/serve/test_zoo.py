"""Thirty architectures: exported, served over HTTP, and compared with the network in memory."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
import uvicorn

from tests.tables import each_row
from tests.unit.trainer.serve.zoo import ARCHITECTURES, CLASSES, network
from tests.waiting import PATIENCE_SECONDS
from trainer.pytorch import measurement, model_files
from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.export import publish
from trainer.pytorch.export_config import ExportConfig
from trainer.pytorch.trained_model import TensorSpec, TrainedModel
from trainer.serve.app import InferenceApp
from trainer.serve.buffers import BufferBudget
from trainer.serve.config import LimitsConfig
from trainer.serve.direct import DirectConfig
from trainer.serve.inference import Inference
from trainer.serve.loader import ModelLoader, Snapshot
from trainer.serve.local_models import LocalModels
from trainer.serve.management import Management
from trainer.serve.metrics import ServerMetrics
from trainer.serve.models import Models
from trainer.serve.registry import ModelRegistry
from trainer.serve.request_log import Observers, RequestLog
from trainer.serve.routes import Routes

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

pytestmark = pytest.mark.long


class Server:
    """The server of all models in this process, on an event loop of its own."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.loop = asyncio.new_event_loop()
        metrics, limits = ServerMetrics(*ARCHITECTURES), LimitsConfig()
        self.registries = {name: ModelRegistry(name, metrics, 64) for name in ARCHITECTURES}
        models = Models(self.registries.values())
        buffers = BufferBudget(limits.max_buffered_bytes)
        routes = Routes(Inference(models, None), Management(models, None), limits.max_json_bytes)
        app = InferenceApp(routes, metrics, limits, buffers, Observers(RequestLog("none", 60)))
        self.uvicorn = uvicorn.Server(DirectConfig(app, limits, metrics.responses, buffers, shutdown_seconds=1))
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self.uvicorn.serve(sockets=[self.socket]))

    def apply(self, name: str, snapshot: Snapshot) -> None:
        async def apply() -> None:
            self.registries[name].apply(snapshot)

        asyncio.run_coroutine_threadsafe(apply(), self.loop).result(PATIENCE_SECONDS)

    def infer(self, name: str, images: Tensor) -> Tensor:
        """Ask over HTTP, with numbers in JSON."""
        tensor = {"name": "x", "datatype": "FP32", "shape": list(images.shape), "data": images.flatten().tolist()}
        host, port = self.socket.getsockname()
        with closing(http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)) as connection:
            connection.request("POST", f"/v2/models/{name}/infer", json.dumps({"inputs": [tensor]}))
            answer = json.load(connection.getresponse())
        [output] = answer["outputs"]
        return torch.tensor(output["data"]).reshape(output["shape"])

    def close(self) -> None:
        self.uvicorn.should_exit = True
        self.thread.join()
        self.socket.close()


@pytest.fixture(scope="module")
def server():
    with closing(Server()) as running:
        yield running


@pytest.fixture(autouse=True)
def quick_and_optimised(monkeypatch):
    """Measure nothing, and use torch's optimisation wherever its answers are right."""
    for setting in ("_CALLS", "_WARM_UP_CALLS"):
        monkeypatch.setattr(measurement, setting, 1)
    monkeypatch.setattr(model_files, "_WORTHWHILE", float("inf"))
    monkeypatch.setattr(model_files, "_LEAST_SAVED_MS", float("-inf"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def exported(folder: Path, name: str, module: nn.Module) -> Snapshot:
    """Publish a network, and return what a server loads of it."""
    architecture = ARCHITECTURES[name]
    samples = torch.randn(3, *architecture.shape, generator=torch.Generator().manual_seed(1))
    trained = TrainedModel(
        module=module,
        inputs=(TensorSpec(name="x", shape=architecture.shape),),
        outputs=(TensorSpec(name="logits", shape=(CLASSES,)),),
        samples=[[samples]],
        run_name="r1",
        step=1,
        held_out=Samples(inputs=samples, labels=torch.zeros(3, dtype=torch.int64)),
        method=architecture.method,
    )
    publish(folder, ExportConfig(model_name=name, max_batch_size=8), trained)
    return ModelLoader(folder / name, LocalModels(0.0, None).load, lambda _: None).sync()


@each_row("name", ARCHITECTURES)
def test_a_served_architecture_answers_as_the_network_in_memory(server, tmp_path, name):
    module = network(ARCHITECTURES[name])
    snapshot = exported(tmp_path, name, module)
    assert not snapshot.unavailable
    assert snapshot.models[1].spec.batching.max_rows == 8
    server.apply(name, snapshot)
    for rows in (1, 3):
        inputs = torch.randn(rows, *ARCHITECTURES[name].shape, generator=torch.Generator().manual_seed(rows))
        with torch.inference_mode():
            expected = module(inputs)
        assert expected.std() > 1e-3, "the random weights give no answers to tell apart"
        np.testing.assert_allclose(server.infer(name, inputs), expected, rtol=1e-4, atol=1e-5)
