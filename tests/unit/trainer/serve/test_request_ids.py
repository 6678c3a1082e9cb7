"""Request ids and traces from clients to the log and back, over HTTP and gRPC, on a real server."""

import contextlib
import json

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc

INFER = "/v2/models/digits/infer"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def server(start, repository):
    repository.publish(1)
    made = start("--grpc_port=0", "--log_requests=all", environment={"ATHANOR_LOG_FORMAT": "json"})
    made.wait_until("/v2/health/ready")
    return made


def logged(server, marker):
    """Return the line about a request that has the marker in its id."""
    match = server.wait_for_log(rf'.*"request_id": "[^"]*{marker}.*')
    return json.loads(match[0])


def expect(line, **fields):
    assert {name: line.get(name) for name in fields} == fields


def test_http(server, document):
    headers = {"X-Request-Id": "head-1", "traceparent": TRACEPARENT}
    status, answered, body = server.request("POST", INFER, document(), headers)
    assert (status, answered["x-request-id"]) == (200, "head-1")
    assert "id" not in body
    expect(logged(server, "head-1"), protocol="http", status=200, model="digits", version=1, trace_id=TRACE)

    status, answered, body = server.request("POST", INFER, document() | {"id": "body-2"}, headers)
    assert (status, answered["x-request-id"], body["id"]) == (200, "head-1", "body-2")
    expect(logged(server, "body-2"), status=200, trace_id=TRACE)

    refused = document() | {"id": "body-3"}
    refused["inputs"][0]["shape"] = [9]
    status, answered, _ = server.request("POST", INFER, refused, {"triton-request-id": "other"})
    assert (status, answered["x-request-id"]) == (400, None)
    expect(logged(server, "body-3"), status=400, level="warning", trace_id=None)

    status, answered, _ = server.request("POST", "/v2/models/none/infer", document(), {"X-Request-Id": "head-4"})
    assert (status, answered["x-request-id"]) == (404, "head-4")
    expect(logged(server, "head-4"), status=404, model=None)


def test_hostile_http_values(server, document):
    hostile = "evil\n{}\x1b[2J" + "z" * 10_000
    status, _, body = server.request("POST", INFER, document() | {"id": hostile})
    assert (status, body["id"]) == (200, hostile)
    line = logged(server, "evil")
    assert line["request_id"].startswith("evil\\n{}\\x1b[2Jzzz")
    assert len(line["request_id"]) < 150

    status, answered, _ = server.request("POST", INFER, document(), {"X-Request-Id": "w" * 200, "traceparent": "x"})
    assert (status, answered["x-request-id"]) == (200, None)
    server.request("POST", INFER, document() | {"id": "last"})
    logged(server, "last")
    assert not [text for text in server.log if "w" * 100 in text or "\x1b" in text]


def test_probes_are_not_logged(server, document):
    assert server.get("/v2/models/none/ready")[0] == 404
    server.request("POST", INFER, document() | {"id": "after"})
    logged(server, "after")
    assert not [text for text in server.log if '"status": 404' in text]


def test_grpc(server):
    message = service_pb2.ModelInferRequest(model_name="digits", id="call-1", inputs=[{"name": "image"}])
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        metadata = (("x-request-id", "meta-1"), ("traceparent", TRACEPARENT))
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelInfer(message, metadata=metadata)
        assert dict(refused.value.trailing_metadata())["x-request-id"] == "meta-1"
        expect(logged(server, "call-1"), protocol="grpc", status="INVALID_ARGUMENT", trace_id=TRACE)
        unnamed = service_pb2.ModelInferRequest(model_name="none")
        with pytest.raises(grpc.RpcError):
            stub.ModelInfer(unnamed, metadata=(("triton-request-id", "meta-2"),))
        expect(logged(server, "meta-2"), status="NOT_FOUND")
        (answer,) = stub.ModelStreamInfer(iter([service_pb2.ModelInferRequest(model_name="none", id="stream-3")]))
        assert answer.infer_response.id == "stream-3"
        expect(logged(server, "stream-3"), status="NOT_FOUND")


def test_grpc_success(server):
    image = triton.InferInput("image", [1, 1, 8, 8], "FP32")
    image.set_data_from_numpy(np.ones((1, 1, 8, 8), np.float32))
    with contextlib.closing(triton.InferenceServerClient(server.grpc_address)) as client:
        answer = client.infer("digits", [image], request_id="call-9", headers={"traceparent": TRACEPARENT})
    assert answer.get_response().id == "call-9"
    expect(logged(server, "call-9"), status="OK", version=1, trace_id=TRACE)
