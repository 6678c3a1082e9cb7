"""A shadow next to a real server: what is counted and logged, and that clients notice nothing of it."""

import contextlib
import http.client
import json
import re
import socket

import numpy as np
import pytest
import torch
import tritonclient.grpc as triton

from tests.unit.trainer.serve.conftest import CONFIG, DEADLINE_SECONDS, Repository, Server
from trainer.serve import model_config
from trainer.serve.protocol import client_messages

INFER = "/v2/models/digits/infer"
SHADOW_ALL = "--shadow_share=1"


class Near(torch.nn.Module):
    """Like the model with the factor 1, rounded to quarters: what int8 does to a model."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.round(image.flatten(1)[:, :10] * 4) / 4


class Wide(torch.nn.Module):
    """Has eleven outputs in place of ten."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.flatten(1)[:, :11]


@pytest.fixture
def shadow_repository(tmp_path):
    repository = Repository(tmp_path / "shadow")
    repository.configure()
    return repository


@pytest.fixture
def start_shadow(shadow_repository):
    """Starts the second server, with another model under the same name."""
    with contextlib.ExitStack() as stack:

        def start_server(module=None) -> Server:
            shadow_repository.publish(1, 1.0, module=module)
            server = Server(shadow_repository.path, "--log_requests=all")
            stack.callback(server.close)
            server.wait_until_listening()
            server.wait_until("/v2/health/ready")
            return server

        yield start_server


@pytest.fixture
def start_first(start, repository):
    """Starts the server that clients reach, with its shadow."""

    def start_server(url: str, *flags: str) -> Server:
        repository.publish(1)
        server = start(f"--shadow_url={url}", SHADOW_ALL, "--grpc_port=0", *flags)
        server.wait_until("/v2/health/ready")
        return server

    return start_server


@pytest.fixture
def nowhere():
    """An address that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def sample(name: str, **labels: object) -> str:
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def requests(outcome: str, reason: str = "") -> str:
    return sample("athanor_shadow_requests", outcome=outcome, reason=reason)


def wait_for(wait_until, server: Server, line: str, value: float):
    wait_until(lambda: f"{line} {value}" in server.metrics().splitlines(), f"{line} {value}")


def image(*pixels: float) -> dict:
    """A request whose first pixels are these, and whose others are 0."""
    data = [*pixels, *[0.0] * (64 - len(pixels))]
    return {"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": data}]}


def test_every_protocol_is_compared_in_one_way(start_first, start_shadow, wait_until, document):
    shadow = start_shadow()
    server = start_first(f"http://{shadow.address}")
    assert server.request("POST", INFER, document(rows=2))[0] == 200
    spec = model_config.parse(CONFIG, "digits")
    headers, body = client_messages.encode([np.ones((1, 1, 8, 8), np.float32)], spec, "binary-1")
    named = {name.decode(): value.decode() for name, value in headers}
    status, answered, content = server.request("POST", INFER, body, named)
    length = answered["inference-header-content-length"].encode()
    outputs = client_messages.decode(content, length, spec)
    assert status == 200
    assert np.frombuffer(outputs["logits"].data, np.float32).tolist() == [1.0] * 10
    with contextlib.closing(triton.InferenceServerClient(server.grpc_address)) as client:
        tensor = triton.InferInput("image", [1, 1, 8, 8], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 1, 8, 8), np.float32))
        client.infer("digits", [tensor], request_id="grpc-1")
    wait_for(wait_until, server, requests("equal"), 3)
    metrics = server.metrics().splitlines()
    assert 'athanor_shadow_difference_bucket{le="0"} 3' in metrics
    for side in ("own", "shadow"):
        assert sample("athanor_shadow_duration_seconds_count", server=side) + " 3" in metrics
    shadow.wait_for_log("request 'grpc-1': 200")
    shadow.wait_for_log("request 'binary-1': 200")


def test_ids_of_headers_are_passed_on(start_first, start_shadow, document):
    shadow = start_shadow()
    server = start_first(f"http://{shadow.address}")
    assert server.request("POST", INFER, document(), {"X-Request-Id": "from-header"})[0] == 200
    shadow.wait_for_log("request 'from-header': 200")


def test_a_slightly_different_model(start_first, start_shadow, wait_until):
    shadow = start_shadow(Near())
    server = start_first(f"http://{shadow.address}", "--shadow_tolerance=0.1")
    assert server.request("POST", INFER, image(0.05, 1.0))[0] == 200
    wait_for(wait_until, server, requests("equal"), 1)
    assert 'athanor_shadow_difference_bucket{le="0.01"} 0' in server.metrics().splitlines()
    assert 'athanor_shadow_difference_bucket{le="0.1"} 1' in server.metrics().splitlines()
    assert server.request("POST", INFER, image(0.37, 1.0) | {"id": "far"})[0] == 200
    wait_for(wait_until, server, requests("different", "value"), 1)
    server.wait_for_log(
        r"request 'far': the shadow's answer differs \(value\): output 'logits': largest difference 0.12$"
    )
    # 1.1 and 1.0 are both 1: the first of two largest values is the class
    status, _, answer = server.request("POST", INFER, image(1.0, 1.1))
    assert (status, answer["outputs"][0]["data"][:2]) == (200, [1.0, pytest.approx(1.1)])
    wait_for(wait_until, server, requests("different", "class"), 1)


def test_without_a_tolerance_the_class_alone_decides(start_first, start_shadow, wait_until):
    shadow = start_shadow(Near())
    server = start_first(f"http://{shadow.address}")
    assert server.request("POST", INFER, image(0.37, 1.0))[0] == 200
    wait_for(wait_until, server, requests("equal"), 1)


def test_another_shape(start_first, start_shadow, shadow_repository, wait_until, document):
    shadow_repository.configure(CONFIG.replace("dims: [10]", "dims: [11]"))
    shadow = start_shadow(Wide())
    server = start_first(f"http://{shadow.address}")
    assert server.request("POST", INFER, document())[0] == 200
    wait_for(wait_until, server, requests("different", "tensor"), 1)
    server.wait_for_log(r"\(tensor\): output 'logits' is 'FP32' \[1, 11\], ours is 'FP32' \[1, 10\]")


def test_a_shadow_without_the_model(start_first, start_shadow, wait_until, document):
    shadow = start_shadow()
    server = start_first(f"http://{shadow.address}", "--shadow_model=other")
    assert server.request("POST", INFER, document())[0] == 200
    wait_for(wait_until, server, requests("failed", "status"), 1)
    server.wait_for_log(r"the shadow failed \(status\): 404 .*unknown model 'other'")


def test_a_dead_shadow_and_one_that_comes_back(start_first, start_shadow, wait_until, document):
    shadow = start_shadow()
    server = start_first(f"http://{shadow.address}")
    assert server.request("POST", INFER, document())[0] == 200
    wait_for(wait_until, server, requests("equal"), 1)
    shadow.close()
    for _ in range(3):
        assert server.request("POST", INFER, document())[0] == 200
    wait_for(wait_until, server, requests("failed", "connection"), 3)
    assert sum("the shadow failed" in line for line in server.log) == 1
    server.terminate()
    assert server.wait() == 0


def test_a_silent_shadow_delays_nothing_and_the_queue_is_bounded(start_first, nowhere, document):
    server = start_first(nowhere, "--shadow_timeout_seconds=3600", "--shadow_queue_size=3")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_SECONDS)
    with contextlib.closing(connection):
        for _ in range(10):
            connection.request("POST", INFER, json.dumps(document()))
            response = connection.getresponse()
            assert (response.status, len(response.read()) > 0) == (200, True)
    metrics = server.metrics().splitlines()
    assert f"{requests('dropped', 'queue_full')} 7" in metrics
    assert f"{requests('failed', 'timeout')} 0" in metrics
    server.terminate()
    assert server.wait() == 0


def test_what_waits_is_bounded_in_bytes(start_first, nowhere, document):
    # a row is 64 * 4 bytes of input and 10 * 4 of output
    server = start_first(nowhere, "--shadow_timeout_seconds=3600", "--shadow_queue_bytes=600")
    for _ in range(3):
        assert server.request("POST", INFER, document())[0] == 200
    assert f"{requests('dropped', 'queue_full')} 1" in server.metrics().splitlines()


def test_a_slow_shadow_fails_after_its_time(start_first, nowhere, wait_until, document):
    server = start_first(nowhere, "--shadow_timeout_seconds=0.05")
    assert server.request("POST", INFER, document())[0] == 200
    wait_for(wait_until, server, requests("failed", "timeout"), 1)
    server.wait_for_log(r"the shadow failed \(timeout\): no answer within 0.05 s")


def test_without_a_shadow_there_are_no_metrics_of_it(shared_server):
    assert not re.search("athanor_shadow", shared_server.metrics())
