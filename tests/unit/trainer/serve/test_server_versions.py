"""Versions come and go while clients ask: no request fails, and nothing broken or half-written is served."""

import http.client
import json
import re
import shutil
import threading

import torch
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as triton

from trainer.model_repository import model_file
from trainer.pytorch.compression.config import CompressionConfig
from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.export import publish
from trainer.pytorch.export_config import ExportConfig
from trainer.pytorch.trained_model import TensorSpec, TrainedModel


class Load:
    """Clients that ask without a pause, each on one connection, and keep what they saw."""

    def __init__(self, server, body: dict, clients: int = 4):
        self.answers: list[tuple[int, object]] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(server.port, json.dumps(body))) for _ in range(clients)
        ]

    def _ask(self, port, body):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while not self._stop.is_set():
            try:
                connection.request("POST", "/v2/models/digits/infer", body)
                response = connection.getresponse()
                self.answers.append((response.status, json.loads(response.read())))
            except OSError as error:
                self.answers.append((0, repr(error)))
                return
        connection.close()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def last_version(self):
        return self.answers[-1][1]["model_version"] if self.answers else None


def test_alive_but_not_ready_until_the_first_version_appears(start, repository, document):
    shutil.rmtree(repository.folder)
    server = start()
    server.wait_for_log("waiting for a model: .* does not exist")
    assert server.get("/v2/health/live")[0] == 200
    assert server.get("/v2")[0] == 200
    for path in ("/v2/health/ready", "/v2/models/digits/ready", "/v2/models/digits"):
        status, headers, body = server.get(path)
        assert (status, headers["retry-after"], headers["x-athanor-retry"]) == (503, "1", "elsewhere")
        assert "does not exist" in body["error"]
    assert server.request("POST", "/v2/models/digits/infer", document())[0] == 503
    repository.configure()
    server.wait_for_log("waiting for a version in")
    repository.publish(1)
    server.wait_until("/v2/health/ready")
    assert server.request("POST", "/v2/models/digits/infer", document())[0] == 200


def test_new_versions_are_taken_over_under_load_without_a_failed_request(start, repository, document, wait_until):
    repository.publish(1)
    server = start()
    server.wait_until("/v2/health/ready")
    with Load(server, document()) as load:
        for version in range(2, 6):
            wait_until(lambda expected=str(version - 1): load.last_version() == expected, f"version {version - 1}")
            repository.publish(version)
        wait_until(lambda: load.last_version() == "5", "version 5")
    assert {status for status, _ in load.answers} == {200}
    for _, answer in load.answers:
        # the answer is of the version that it names
        assert answer["outputs"][0]["data"] == [float(answer["model_version"])] * 10
    for version in range(1, 5):
        server.wait_for_log(f"version {version}: released")
    assert 'version="1"' not in server.metrics()
    for name in ("athanor_model_load_seconds", "athanor_model_warmup_seconds"):
        assert re.search(rf'^{name}{{model="digits",version="5"}} \d+\.\d+', server.metrics(), re.MULTILINE)
    assert server.get("/v2/models/digits/versions/1/ready")[0] == 404


def test_pinned_server_is_ready_with_its_version_alone(start, repository, document):
    repository.publish(1)
    repository.publish(3)
    server = start("--model_version=2")
    server.wait_for_log("waiting for version 2 in")
    for path in ("/v2/models/digits/ready", "/v2/models/digits/versions/2/ready", "/v2/models/digits/versions/3/ready"):
        assert server.get(path)[0] == 503
    repository.publish(2)
    server.wait_until("/v2/models/digits/versions/2/ready")
    assert server.request("POST", "/v2/models/digits/infer", document())[2]["model_version"] == "2"
    assert server.get("/v2/models/digits/versions/3/ready")[0] == 404


def test_broken_version_is_counted_and_the_old_one_serves_on(start, repository, document):
    repository.publish(1)
    server = start()
    server.wait_until("/v2/health/ready")
    repository.publish(2, sha256="0" * 64)
    server.wait_for_log("version 2: not served: model.pt: sha256 is .*; manifest.json says 000")
    status, _, answer = server.request("POST", "/v2/models/digits/infer", document())
    assert (status, answer["model_version"]) == (200, "1")
    assert server.get("/v2/health/ready")[0] == 200
    assert 'athanor_model_load_failure{model="digits"} 1' in server.metrics()
    states = {entry["version"]: entry["state"] for entry in server.request("POST", "/v2/repository/index")[2]}
    assert states == {"1": "READY", "2": "UNAVAILABLE"}
    shutil.rmtree(repository.folder / "2")
    repository.publish(2)
    server.wait_until("/v2/models/digits/versions/2/ready")


def trained_model() -> TrainedModel:
    samples = Samples(inputs=torch.rand(5, 1, 8, 8), labels=torch.zeros(5, dtype=torch.int64))
    return TrainedModel(
        module=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)).eval(),
        inputs=(TensorSpec(name="image", shape=(1, 8, 8)),),
        outputs=(TensorSpec(name="logits", shape=(10,)),),
        samples=[[samples.inputs]],
        run_name="run",
        step=1,
        held_out=samples,
        training=samples,
    )


def test_model_published_by_the_exporter_is_served(start, repository, document):
    shutil.rmtree(repository.folder)
    assert publish(repository.path, ExportConfig(), trained_model()) == 1
    config = text_format.Parse((repository.folder / "config.pbtxt").read_text(), triton.ModelConfig())
    assert config.HasField("dynamic_batching")
    server = start()
    server.wait_until("/v2/health/ready")
    assert server.request("POST", "/v2/models/digits/infer", document(rows=3))[2]["outputs"][0]["shape"] == [3, 10]


def test_the_quantised_variant_of_the_exporter_is_served_and_the_model_to_others(start, repository, document):
    shutil.rmtree(repository.folder)
    compression = CompressionConfig(variants=("int8",), publish_inaccurate_variants=True)
    publish(repository.path, ExportConfig(), trained_model(), compression)
    body = document(rows=3)
    pixels = torch.tensor(body["inputs"][0]["data"], dtype=torch.float32).reshape(3, 1, 8, 8)

    def expected(name: str) -> torch.Tensor:
        with torch.inference_mode():
            return model_file.load(repository.folder / "1" / name).call(pixels)

    for flags, name in (((), "model.pt"), (("--model_variant=int8",), "model.int8.pt")):
        server = start(*flags)
        server.wait_until("/v2/health/ready")
        answer = server.request("POST", "/v2/models/digits/infer", body)[2]["outputs"][0]["data"]
        torch.testing.assert_close(torch.tensor(answer).reshape(3, 10), expected(name), rtol=1e-5, atol=1e-6)
    assert not torch.equal(expected("model.pt"), expected("model.int8.pt"))
