"""The protocol as clients see it: the official client, and plain HTTP."""

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
import tritonclient.http as triton
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException

from tests.tables import each_row

IMAGE = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)


@pytest.fixture
def client(shared_server):
    made = triton.InferenceServerClient(shared_server.address)
    yield made
    made.close()


def triton_input(array=IMAGE, *, binary=True):
    made = triton.InferInput("image", list(array.shape), "FP32")
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def test_health_and_readiness(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits")
    assert client.is_model_ready("digits", "1")
    assert not client.is_model_ready("digits", "2")
    assert not client.is_model_ready("other")


def test_metadata(client):
    extensions = ["classification", "model_configuration", "model_repository", "schedule_policy", "statistics"]
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data", *extensions]
    expected = {
        "name": "digits",
        "versions": ["1"],
        "platform": "pytorch_libtorch",
        "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}],
        "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}],
    }
    assert client.get_model_metadata("digits") == expected
    assert client.get_model_metadata("digits", "1") == expected


@each_row(("binary_input", "binary_output", "version"), product([True, False], [True, False, None], ["", "1"]))
def test_inference(client, binary_input, binary_output, version):
    outputs = None if binary_output is None else [triton.InferRequestedOutput("logits", binary_data=binary_output)]
    batch = np.concatenate([IMAGE, IMAGE * 2])
    answer = client.infer(
        "digits", [triton_input(batch, binary=binary_input)], version, outputs=outputs, request_id="a-7"
    )
    assert answer.get_response()["id"] == "a-7"
    assert answer.get_response()["model_version"] == "1"
    np.testing.assert_allclose(answer.as_numpy("logits"), batch.reshape(2, 64)[:, :10], rtol=1e-6)


def test_binary_nan_is_data(client):
    answer = client.infer("digits", [triton_input(np.full((1, 1, 8, 8), np.nan, np.float32))])
    assert np.isnan(answer.as_numpy("logits")).all()


def test_repository_index(client):
    ready = [{"name": "digits", "version": "1", "state": "READY", "reason": ""}]
    assert client.get_model_repository_index() == ready


def test_polled_repository_refuses_unload(client):
    with pytest.raises(InferenceServerException, match="model_control=explicit"):
        client.unload_model("digits")
    assert client.is_model_ready("digits")


def test_explicit_unload_and_load(start, repository):
    repository.publish(1)
    server = start("--model_control=explicit")
    server.wait_until("/v2/health/ready")
    repository.publish(2)
    with contextlib.closing(triton.InferenceServerClient(server.address)) as client:
        client.unload_model("digits")
        assert not client.is_server_ready()
        assert client.is_server_live()
        assert client.get_model_repository_index()[0]["state"] == "UNAVAILABLE"
        client.load_model("digits")
        assert client.infer("digits", [triton_input()]).get_response()["model_version"] == "2"
        with pytest.raises(InferenceServerException, match="'config' is not supported") as refused:
            client.load_model("digits", config="{}")
        assert refused.value.status() == "501"
        assert server.request("POST", "/v2/repository/models/digits/load", "{")[0] == 400
        repository.configure("nonsense")
        with pytest.raises(InferenceServerException, match="not a Triton model configuration"):
            client.load_model("digits")
        assert client.is_server_ready()


@each_row(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v2/unknown", 404),
        ("GET", "/v2/models/other", 404),
        ("GET", "/v2/models/digits/versions/2", 404),
        ("GET", "/v2/models/digits/versions/01", 404),
        ("GET", f"/v2/models/digits/versions/{'9' * 5000}", 404),
        ("GET", "/v2/models/digits%2Fother", 404),
        ("GET", "/v2/models/%ff%fe/ready", 404),
        ("GET", "/v2/models/digits/infer", 405),
        ("POST", "/v2/health/live", 405),
        ("DELETE", "/v2/models/digits", 405),
        ("POST", "/v2/models/other/infer", 404),
        ("POST", "/v2/models/digits/versions/2/infer", 404),
        ("POST", "/v2/repository/models/other/load", 404),
    ],
)
def test_unknown_paths_and_methods(shared_server, method, path, status):
    answer, headers, body = shared_server.request(method, path)
    assert (answer, headers["content-type"], list(body)) == (status, "application/json", ["error"])
    # RFC 9110, 15.5.6: a 405 says what is allowed
    allowed = "POST" if path.endswith("/infer") else "GET"
    assert headers["allow"] == (allowed if status == 405 else None)


def test_index_of_ready_models_and_bad_index_requests(shared_server):
    index = "/v2/repository/index"
    assert len(shared_server.request("POST", index, {"ready": True})[2]) == 1
    assert shared_server.request("POST", index, "{")[0] == 400
    assert shared_server.request("POST", index, "[]")[0] == 400


def test_metrics_have_tritons_names(shared_server, document):
    def values():
        text = shared_server.metrics()
        assert list(text_string_to_metric_families(text))
        # not by that parser: it gives counters the suffix _total, which Triton's lack
        return {
            key: float(value) for key, _, value in (line.rpartition(" ") for line in text.splitlines()) if key[0] != "#"
        }

    before = values()
    assert shared_server.request("POST", "/v2/models/digits/infer", document(rows=3))[0] == 200
    assert shared_server.request("POST", "/v2/models/digits/infer", "{}")[0] == 400
    after = values()

    def growth(name, more=""):
        key = f'{name}{{model="digits",version="1"{more}}}'
        return after[key] - before[key]

    assert growth("nv_inference_request_success") == 1
    assert growth("nv_inference_request_failure", ',reason="OTHER"') == 1
    assert growth("nv_inference_count") == 3
    assert growth("nv_inference_exec_count") == 1
    total = growth("nv_inference_request_duration_us")
    assert total >= growth("nv_inference_queue_duration_us") + growth("nv_inference_compute_infer_duration_us") > 0
    assert growth("athanor_request_duration_seconds_count") == 1
    assert growth("athanor_request_duration_seconds_sum") == pytest.approx(total / 1e6, abs=1e-6)
    assert growth("athanor_request_duration_seconds_bucket", ',le="+Inf"') == 1
    assert [growth("athanor_batch_size_bucket", f',le="{bound}"') for bound in (1, 2, 4, 256)] == [0, 0, 1, 1]
    assert growth("athanor_batch_size_sum") == 3
    assert after['nv_inference_pending_request_count{model="digits",version="1"}'] == 0
    assert after['athanor_model_load_success{model="digits"}'] == 1
    assert after['athanor_model_load_failure{model="digits"}'] == 0
    assert after['athanor_http_responses{status="400"}'] >= 1
    assert after["process_resident_memory_bytes"] > 0
    assert shared_server.request("GET", "/other", port=shared_server.metrics_port)[0] == 404


def test_concurrent_requests_get_their_own_rows(shared_server, document):
    def ask(value):
        status, _, body = shared_server.request("POST", "/v2/models/digits/infer", document(value=value))
        assert status == 200, body
        return body["outputs"][0]["data"]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(200)))
    assert answers == [[float(value)] * 10 for value in range(200)]


def test_json_answer_without_id_and_with_binary_default(shared_server, document):
    plain = shared_server.request("POST", "/v2/models/digits/infer", document())[2]
    assert plain == {
        "model_name": "digits",
        "model_version": "1",
        "outputs": [{"name": "logits", "datatype": "FP32", "shape": [1, 10], "data": [1.0] * 10}],
    }
    asked = document() | {"parameters": {"binary_data_output": True}}
    _, headers, content = shared_server.request("POST", "/v2/models/digits/infer", asked)
    size = int(headers["Inference-Header-Content-Length"])
    assert json.loads(content[:size])["outputs"][0]["parameters"] == {"binary_data_size": 40}
    assert np.frombuffer(content[size:], "<f4").tolist() == [1.0] * 10


@each_row(
    ("headers", "changes"),
    [
        ({}, {}),
        ({"x-request-id": "a-1"}, {"id": "b"}),
        ({}, {"parameters": {"binary_data_output": True}}),
        ({}, {"inputs": []}),
        ({"content-encoding": "gzip"}, {}),
    ],
    ids=["plain", "ids", "binary", "refused", "compressed"],
)
def test_a_request_has_the_same_answer_whichever_way_it_goes_through_the_server(
    shared_server, document, headers, changes
):
    """Announced small bodies go past ASGI, chunks go through it."""
    content = json.dumps(document() | changes).encode()
    answers = [
        shared_server.request("POST", "/v2/models/digits/infer", body, headers)
        for body in (content, iter([content[:50], content[50:]]))
    ]
    (status, own_headers, answer), (asgi_status, asgi_headers, asgi_answer) = answers
    assert (status, answer) == (asgi_status, asgi_answer)
    # the second may have ended in between
    assert {name.lower(): value for name, value in own_headers.items() if name != "date"} == {
        name.lower(): value for name, value in asgi_headers.items() if name != "date"
    }
