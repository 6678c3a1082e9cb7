"""The protocol over gRPC, with its publisher's client: the same model and batcher as over HTTP."""

import asyncio
import contextlib
import queue
import socket
import threading

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_async
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.tables import each_row
from tests.unit.trainer.serve.conftest import DEADLINE_SECONDS, GATHERING

IMAGE = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
FAILURES = "nv_inference_request_failure"
CANCELED = ',reason="CANCELED"'


@pytest.fixture
def client(shared_server):
    with contextlib.closing(triton.InferenceServerClient(shared_server.grpc_address)) as made:
        yield made


@pytest.fixture
def stub(shared_server):
    """Sends messages that the client would not build."""
    with grpc.insecure_channel(shared_server.grpc_address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def triton_input(array=IMAGE):
    made = triton.InferInput("image", list(array.shape), "FP32")
    made.set_data_from_numpy(array)
    return made


def request_message(*, raw=True, **changes):
    values = [1.0] * 64
    tensor = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8]}
    if not raw:
        tensor["contents"] = {"fp32_contents": values}
    message = {"model_name": "digits", "inputs": [tensor | changes.pop("input", {})]}
    if raw:
        message["raw_input_contents"] = [np.array(values, "<f4").tobytes()]
    return service_pb2.ModelInferRequest(**(message | changes))


def test_health_and_readiness(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits")
    assert client.is_model_ready("digits", "1")
    assert not client.is_model_ready("digits", "2")
    assert not client.is_model_ready("other")


def test_both_protocols_describe_the_server_alike(client, shared_server):
    assert client.get_server_metadata(as_json=True) == shared_server.get("/v2")[2]
    over_http = shared_server.get("/v2/models/digits")[2]
    over_grpc = client.get_model_metadata("digits", "1")
    assert (over_grpc.platform, list(over_grpc.versions)) == (over_http["platform"], over_http["versions"])
    for kind in ("inputs", "outputs"):
        tensors = [{"name": t.name, "datatype": t.datatype, "shape": list(t.shape)} for t in getattr(over_grpc, kind)]
        assert tensors == over_http[kind]
    config = client.get_model_config("digits").config
    document = shared_server.get("/v2/models/digits/config")[2]
    assert (config.name, config.max_batch_size, list(config.input[0].dims)) == ("digits", 8, [1, 8, 8])
    assert (document["name"], document["max_batch_size"], document["input"][0]["dims"]) == ("digits", 8, [1, 8, 8])
    assert document["input"][0]["data_type"] == "TYPE_FP32"
    (entry,) = client.get_model_repository_index().models
    assert (entry.name, entry.version, entry.state) == ("digits", "1", "READY")


@pytest.mark.parametrize("version", ["", "1"])
@pytest.mark.parametrize("outputs", [None, ["logits"]])
def test_inference(client, version, outputs):
    batch = np.concatenate([IMAGE, IMAGE * 2])
    requested = outputs and [triton.InferRequestedOutput(name) for name in outputs]
    answer = client.infer("digits", [triton_input(batch)], version, outputs=requested, request_id="a-7")
    assert answer.get_response().id == "a-7"
    assert (answer.get_response().model_name, answer.get_response().model_version) == ("digits", "1")
    np.testing.assert_allclose(answer.as_numpy("logits"), batch.reshape(2, 64)[:, :10], rtol=1e-6)


def test_numbers_in_the_message_are_the_same_as_raw_bytes(stub):
    for raw in (True, False):
        response = stub.ModelInfer(request_message(raw=raw))
        assert np.frombuffer(response.raw_output_contents[0], "<f4").tolist() == [1.0] * 10


@each_row(
    ("changes", "code", "message"),
    [
        ({"model_name": "other"}, "NOT_FOUND", "unknown model"),
        ({"model_version": "2"}, "NOT_FOUND", "no version 2"),
        ({"model_version": "x"}, "NOT_FOUND", "versions are numbers"),
        ({"inputs": [], "raw_input_contents": []}, "INVALID_ARGUMENT", r"\['image'\] are missing"),
        ({"input": {"name": "other"}}, "INVALID_ARGUMENT", r"must be one of \['image'\]"),
        ({"input": {"datatype": "FP64"}}, "INVALID_ARGUMENT", "must be 'FP32'"),
        ({"input": {"shape": [1, 64]}}, "INVALID_ARGUMENT", "shape=.*must be"),
        ({"input": {"shape": [-1, 1, 8, 8]}}, "INVALID_ARGUMENT", "shape=.*must be"),
        ({"input": {"shape": [9, 1, 8, 8]}, "raw_input_contents": [bytes(9 * 256)]}, "INVALID_ARGUMENT", "limit: 8"),
        ({"raw_input_contents": [bytes(255)]}, "INVALID_ARGUMENT", "255 bytes; shape .* needs 256"),
        ({"raw_input_contents": [bytes(256), b""]}, "INVALID_ARGUMENT", "2 entries for 1 inputs"),
        ({"input": {"contents": {"fp32_contents": [1]}}}, "INVALID_ARGUMENT", "both contents and raw"),
        ({"raw": False, "input": {"contents": {"fp64_contents": [1]}}}, "INVALID_ARGUMENT", "sent in fp32_contents"),
        ({"raw": False, "input": {"contents": {"fp32_contents": [1]}}}, "INVALID_ARGUMENT", "1 values; .*needs 64"),
        ({"outputs": [{"name": "other"}]}, "INVALID_ARGUMENT", r"outputs\[0\].name='other'"),
        ({"outputs": [{"name": "logits"}] * 2}, "INVALID_ARGUMENT", "'logits' is there twice"),
    ],
)
def test_requests_that_do_not_fit(stub, changes, code, message):
    with pytest.raises(grpc.RpcError, match=message) as refused:
        stub.ModelInfer(request_message(**changes))
    assert refused.value.code().name == code


def test_limits(client, stub):
    with pytest.raises(InferenceServerException, match="RESOURCE_EXHAUSTED"):
        client.infer("digits", [triton_input(np.zeros((8000, 1, 8, 8), np.float32))])
    with pytest.raises(grpc.RpcError) as refused:
        stub.ServerLive(service_pb2.ServerLiveRequest(), metadata=[("x", "a" * 100_000)])
    assert refused.value.code().name == "RESOURCE_EXHAUSTED"
    assert client.is_server_live()


def test_what_is_not_offered_is_refused_politely(client, shared_server):
    for call in (
        client.get_system_shared_memory_status,
        lambda: client.register_system_shared_memory("a", "/a", 10),
        client.unregister_system_shared_memory,
        client.get_cuda_shared_memory_status,
        lambda: client.register_cuda_shared_memory("a", b"eA==", 0, 10),
        client.unregister_cuda_shared_memory,
        client.get_trace_settings,
        client.get_log_settings,
    ):
        with pytest.raises(InferenceServerException, match="not supported") as refused:
            call()
        assert refused.value.status() == "StatusCode.UNIMPLEMENTED"
    assert not [line for line in shared_server.log if "Traceback" in line]


def test_statistics_count_both_protocols(client, shared_server, document):
    def statistics():
        return client.get_inference_statistics("digits", "1", as_json=True)["model_stats"][0]

    before = statistics()
    client.infer("digits", [triton_input()])
    assert shared_server.request("POST", "/v2/models/digits/infer", document(rows=3))[0] == 200
    assert shared_server.request("POST", "/v2/models/digits/infer", "{}")[0] == 400
    after = statistics()

    def growth(*path):
        first, last = before, after
        for key in path:
            first, last = first.get(key, {}), last[key]
        return int(last) - int(first or 0)

    assert growth("inference_count") == 4
    assert growth("execution_count") == 2
    assert growth("inference_stats", "success", "count") == 2
    assert growth("inference_stats", "fail", "count") == 1
    assert growth("inference_stats", "fail", "ns") > 0
    parts = [growth("inference_stats", part, "ns") for part in ("queue", "compute_input", "compute_infer")]
    assert all(part > 0 for part in parts)
    assert growth("inference_stats", "success", "ns") > sum(parts)
    assert growth("last_inference") >= 0
    assert int(after["last_inference"]) > 1_700_000_000_000
    (over_http,) = shared_server.get("/v2/models/stats")[2]["model_stats"]
    assert over_http["inference_count"] == int(after["inference_count"])
    assert {3, 1} <= {batch["batch_size"] for batch in over_http["batch_stats"]}
    # every part is there, as in Triton's JSON: clients read them without asking
    total = over_http["inference_stats"]
    assert (total["cache_hit"], total["cache_miss"]) == ({"count": 0, "ns": 0}, {"count": 0, "ns": 0})
    for part in ("compute_input", "compute_output"):
        assert sum(batch[part]["ns"] for batch in over_http["batch_stats"]) == total[part]["ns"]
        assert all(batch[part]["count"] == batch["compute_infer"]["count"] for batch in over_http["batch_stats"])


def test_stream_answers_in_order_and_survives_an_error(client):
    answers: queue.Queue = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for factor in (1, 2):
        client.async_stream_infer("digits", [triton_input(IMAGE * factor)], request_id=str(factor))
    client.async_stream_infer("digits", [triton_input()], "7", request_id="wrong")
    client.async_stream_infer("digits", [triton_input(IMAGE * 3)], request_id="3")
    received = [answers.get(timeout=DEADLINE_SECONDS) for _ in range(4)]
    client.stop_stream()
    assert [result and result.get_response().id for result, _ in received] == ["1", "2", None, "3"]
    assert "no version 7" in str(received[2][1])
    final = [result and result.get_response().parameters["triton_final_response"].bool_param for result, _ in received]
    assert final == [True, True, None, True]
    np.testing.assert_allclose(received[3][0].as_numpy("logits"), (IMAGE * 3).reshape(1, 64)[:, :10], rtol=1e-6)


def test_explicit_unload_and_load(start, repository):
    repository.publish(1)
    server = start("--model_control=explicit", "--grpc_port=0")
    server.wait_until("/v2/health/ready")
    repository.publish(2)
    with contextlib.closing(triton.InferenceServerClient(server.grpc_address)) as client:
        client.unload_model("digits")
        assert not client.is_server_ready()
        assert client.is_server_live()
        with pytest.raises(InferenceServerException, match="not ready") as refused:
            client.infer("digits", [triton_input()])
        assert refused.value.status() == "StatusCode.UNAVAILABLE"
        with grpc.insecure_channel(server.grpc_address) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            with pytest.raises(grpc.RpcError) as refused:
                stub.ModelInfer(request_message(), metadata=[("x-request-id", "meta-1")])
        # without messages gRPC sends these in the head of the answer, where a proxy sees them before it answers
        assert dict(refused.value.trailing_metadata()) == {"x-request-id": "meta-1", "x-athanor-retry": "elsewhere"}
        client.load_model("digits")
        assert client.infer("digits", [triton_input()]).get_response().model_version == "2"
        with pytest.raises(InferenceServerException, match="unknown model"):
            client.load_model("other")
        for override in ({"config": "{}"}, {"config": "{}", "files": {"file:1/model.pt": b"a"}}):
            with pytest.raises(InferenceServerException, match="not supported") as refused:
                client.load_model("digits", **override)
            assert refused.value.status() == "StatusCode.UNIMPLEMENTED"


def test_cancelled_request_is_not_run(start, repository, endless):
    """The model is held by one request; a cancelled one leaves the queue and is counted, never run."""
    repository.publish(1, module=endless)
    server = start("--grpc_port=0")
    server.wait_until("/v2/health/ready")

    async def scenario():
        async with triton_async.InferenceServerClient(server.grpc_address) as client:
            held = asyncio.ensure_future(client.infer("digits", [triton_input(IMAGE * 100)]))
            await asyncio.to_thread(server.wait_until_metric, "athanor_running_batches", 1)
            left = asyncio.ensure_future(client.infer("digits", [triton_input()]))
            await asyncio.to_thread(server.wait_until_metric, "nv_inference_pending_request_count", 1)
            left.cancel()
            await asyncio.to_thread(server.wait_until_metric, FAILURES, 1, CANCELED)
            held.cancel()
            await asyncio.to_thread(server.wait_until_metric, FAILURES, 2, CANCELED)
            await asyncio.gather(held, left, return_exceptions=True)

    asyncio.run(scenario())
    assert 'athanor_grpc_responses{code="CANCELLED"} 2' in server.metrics().splitlines()


def test_a_stream_that_is_cut_is_counted_and_leaves_nothing_behind(start, repository, endless, wait_until):
    repository.publish(1, module=endless)
    server = start("--grpc_port=0")
    server.wait_until("/v2/health/ready")
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        held = request_message(raw_input_contents=[np.full(64, 100, "<f4").tobytes()])
        stream = stub.ModelStreamInfer(iter([request_message(), held, request_message()]))
        assert len(next(stream).infer_response.raw_output_contents) == 1
        server.wait_until_metric("athanor_running_batches", 1)
        stream.cancel()
        server.wait_until_metric(FAILURES, 1, CANCELED)
        wait_until(lambda: 'athanor_grpc_responses{code="CANCELLED"} 1' in server.metrics(), "the stream to end")
    server.wait_until_metric("nv_inference_request_success", 1)
    server.wait_until_metric("nv_inference_pending_request_count", 0)


def test_deadline_of_the_client_cancels(start, repository, endless):
    repository.publish(1, module=endless)
    server = start("--grpc_port=0")
    server.wait_until("/v2/health/ready")
    with contextlib.closing(triton.InferenceServerClient(server.grpc_address)) as client:
        assert client.is_server_live()  # connected: the request itself gets there in time
        with pytest.raises(InferenceServerException, match="Deadline Exceeded") as refused:
            client.infer("digits", [triton_input(IMAGE * 100)], client_timeout=2)
        assert refused.value.status() == "StatusCode.DEADLINE_EXCEEDED"
        server.wait_until_metric(FAILURES, 1, CANCELED)


def test_requests_under_way_are_answered_when_the_server_stops(start, repository):
    repository.configure(GATHERING)
    repository.publish(1)
    server = start("--grpc_port=0", "--warmup_budget_seconds=0")
    server.wait_until("/v2/health/ready")
    with contextlib.closing(triton.InferenceServerClient(server.grpc_address)) as client:
        answers: queue.Queue = queue.Queue()
        for _ in range(5):
            client.async_infer("digits", [triton_input()], lambda result, error: answers.put((result, error)))
        server.wait_until_metric("nv_inference_pending_request_count", 5)
        server.terminate()
        assert [answers.get(timeout=DEADLINE_SECONDS)[1] for _ in range(5)] == [None] * 5
    assert server.wait() == 0


def ends_of_streams(stub, started):
    """Open a stream that is waiting for its client's next request after one answer; return what it ends with."""
    may_end = threading.Event()

    def requests():
        yield request_message()
        assert may_end.wait(DEADLINE_SECONDS)

    stream = stub.ModelStreamInfer(requests())
    assert len(next(stream).infer_response.raw_output_contents) == 1
    started()
    with pytest.raises(grpc.RpcError) as ended:
        next(stream)
    may_end.set()
    return ended.value.code().name, ended.value.details()


def test_a_stream_ends_with_a_reason_when_it_is_old(start, repository):
    repository.publish(1)
    server = start("--grpc_port=0", "--warmup_budget_seconds=0", "--max_grpc_age_seconds=2")
    server.wait_until("/v2/health/ready")
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        code, details = ends_of_streams(stub, lambda: None)
        assert (code, "a stream ends after 2 s" in details) == ("UNAVAILABLE", True)
        # on another connection by now
        assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
    assert 'athanor_grpc_responses{code="UNAVAILABLE"} 1' in server.metrics()


def test_streams_end_after_their_answer_when_the_server_stops(start, repository):
    repository.configure(GATHERING)
    repository.publish(1)
    server = start("--grpc_port=0", "--warmup_budget_seconds=0", "--drain_timeout_seconds=60")
    server.wait_until("/v2/health/ready")
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        busy = stub.ModelStreamInfer(iter([request_message(id=str(number)) for number in range(100)]))
        server.wait_until_metric("nv_inference_pending_request_count", 1)
        server.terminate()
        assert next(busy).infer_response.id == "0"
        with pytest.raises(grpc.RpcError) as ended:
            next(busy)
        code, details = ended.value.code().name, ended.value.details()
        assert (code, "the server stops" in details) == ("UNAVAILABLE", True)
    assert server.wait() == 0


def test_a_stream_without_requests_does_not_keep_the_server_from_stopping(start, repository):
    repository.publish(1)
    server = start("--grpc_port=0", "--warmup_budget_seconds=0", "--drain_timeout_seconds=600")
    server.wait_until("/v2/health/ready")
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        code, details = ends_of_streams(stub, server.terminate)
        assert (code, "the server stops" in details) == ("UNAVAILABLE", True)
        assert server.wait() == 0


def test_taken_port_is_reported(start, shared_server):
    with pytest.raises(AssertionError, match=r"cannot listen on .*--grpc_port"):
        start(f"--grpc_port={shared_server.grpc_port}")


def http2_frame(kind, flags, stream, payload):
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def call_of(path):
    """Return the bytes of a connection whose only call has this path (RFC 9113, and RFC 7541 for the fields)."""
    field = [b"\x83\x86", b"\x04", bytes([len(path)]), path, b"\x01\x01a"]  # POST, http, :path, :authority
    for name, value in ((b"te", b"trailers"), (b"content-type", b"application/grpc")):
        field += [b"\x00", bytes([len(name)]), name, bytes([len(value)]), value]
    settings, headers, ends = 4, 1, 0x5
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    return preface + http2_frame(settings, 0, 0, b"") + http2_frame(headers, ends, 1, b"".join(field))


def test_the_port_opens_again_after_a_call_that_ends_grpc(shared_server, stub):
    host, _, port = shared_server.grpc_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS) as connection:
        connection.sendall(call_of(b"/\xff/ServerLive"))
        shared_server.wait_for_log("opening it again")
    answer = stub.ServerLive(service_pb2.ServerLiveRequest(), wait_for_ready=True, timeout=DEADLINE_SECONDS)
    assert answer.live
    assert not [line for line in shared_server.log if "Traceback" in line]
