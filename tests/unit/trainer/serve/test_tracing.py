"""Spans of requests, received by a real OTLP server from a real model server."""

import contextlib
import queue
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from tests.unit.trainer.serve.conftest import PROJECT

INFER = "/v2/models/digits/infer"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
RECORDED, NOT_RECORDED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
DEADLINE_SECONDS = 60
STAGES = {"decode", "queue", "compute", "serialize"}
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "20", "ATHANOR_JOB": "digits-service"}


class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector that keeps what it gets."""

    def __init__(self):
        self._came = queue.Queue()

    def Export(self, request, _context):  # noqa: N802  the name of the call
        for resource in request.resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self._came.put((names["service.name"], span))
        return trace_service_pb2.ExportTraceServiceResponse()

    def take(self, count):
        """Return so many spans by name, with the name of the service that sent them."""
        spans = [self._came.get(timeout=DEADLINE_SECONDS) for _ in range(count)]
        assert {service for service, _ in spans} == {"digits-service"}
        return {span.name: span for _, span in spans}

    @property
    def is_empty(self):
        return self._came.empty()


@pytest.fixture
def receiver():
    server = grpc.server(ThreadPoolExecutor(2))
    made = Receiver()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(made, server)
    made.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield made
    server.stop(None).wait()


@pytest.fixture
def server(start, repository, receiver):
    repository.publish(1)
    flags = (f"--otlp_endpoint={receiver.endpoint}", "--trace_sample_ratio=0", "--grpc_port=0")
    made = start(*flags, environment=SOON)
    made.wait_until("/v2/health/ready")
    return made


def attributes(span):
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_stages_of_a_request_in_the_clients_trace(server, receiver, document):
    body = document() | {"id": "order\n7"}
    assert server.request("POST", INFER, body, {"traceparent": RECORDED})[0] == 200
    spans = receiver.take(5)
    root = spans.pop("infer digits")
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, SPAN)
    expected = {"athanor.protocol": "http", "athanor.status": 200, "athanor.model": "digits", "athanor.version": 1}
    assert attributes(root) == expected | {"athanor.request_id": "order\\n7"}
    assert spans.keys() == STAGES
    assert {span.parent_span_id for span in spans.values()} == {root.span_id}
    assert {span.trace_id for span in spans.values()} == {root.trace_id}
    times = [spans[name] for name in ("decode", "queue", "compute", "serialize")]
    moments = [root.start_time_unix_nano]
    for span in times:
        moments += [span.start_time_unix_nano, span.end_time_unix_nano]
    moments.append(root.end_time_unix_nano)
    assert moments == sorted(moments)


def test_refused_request_over_grpc(server, receiver):
    image = triton.InferInput("image", [1, 1, 8, 8], "FP32")
    image.set_data_from_numpy(np.ones((1, 1, 8, 8), np.float32))
    with contextlib.closing(triton.InferenceServerClient(server.grpc_address)) as client:
        with pytest.raises(triton.InferenceServerException):
            client.infer("none", [image], headers={"traceparent": RECORDED})
        root = receiver.take(1)["infer"]
        assert attributes(root)["athanor.status"] == "NOT_FOUND"
        assert "unknown model" in attributes(root)["error.message"]
        client.infer("digits", [image], headers={"traceparent": RECORDED})
    assert receiver.take(5).keys() == STAGES | {"infer digits"}


def test_requests_that_nobody_records_are_not_sent(server, receiver, document):
    assert server.request("POST", INFER, document(), {"traceparent": NOT_RECORDED})[0] == 200
    assert server.request("POST", INFER, document())[0] == 200
    assert server.request("POST", INFER, document(), {"traceparent": "nonsense"})[0] == 200
    server.terminate()
    assert server.wait() == 0
    assert receiver.is_empty


def test_last_spans_are_sent_before_the_end_and_a_share_begins_traces(start, repository, receiver, document):
    repository.publish(1)
    flags = (f"--otlp_endpoint={receiver.endpoint}", "--trace_sample_ratio=1")
    server = start(*flags, environment=SOON | {"OTEL_BSP_SCHEDULE_DELAY": "3600000"})
    server.wait_until("/v2/health/ready")
    assert server.request("POST", INFER, document())[0] == 200
    server.terminate()
    root = receiver.take(5)["infer digits"]
    assert any(root.trace_id)
    assert not root.parent_span_id
    assert server.wait() == 0


def test_collector_that_is_away_fails_no_request(start, repository, document):
    repository.publish(1)
    server = start("--otlp_endpoint=http://127.0.0.1:1", "--trace_sample_ratio=1", environment=SOON)
    server.wait_until("/v2/health/ready")
    for _ in range(5):
        assert server.request("POST", INFER, document())[0] == 200
    server.terminate()
    assert server.wait() == 0


def test_not_imported_unless_asked_for():
    program = "import sys, trainer.serve.lifecycle; print([m for m in sys.modules if m.startswith('opentelemetry')])"
    printed = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
