"""gRPC's health protocol, as Kubernetes and Envoy speak it: the bytes are those of health.proto, not our classes."""

import grpc
import pytest

from tests.tables import each_row
from tests.unit.trainer.serve.conftest import DEADLINE_SECONDS

SERVING, NOT_SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"


def request(service: str) -> bytes:
    """Field 1, a string; proto3 leaves out an empty one."""
    return b"\x0a" + bytes([len(service)]) + service.encode() if service else b""


def check(channel, content: bytes) -> bytes:
    return channel.unary_unary("/grpc.health.v1.Health/Check")(content, timeout=DEADLINE_SECONDS)


def watch(channel, service: str):
    return channel.unary_stream("/grpc.health.v1.Health/Watch")(request(service), timeout=DEADLINE_SECONDS)


@each_row("service", ["", "inference.GRPCInferenceService"])
def test_a_ready_server_is_serving(shared_server, service):
    with grpc.insecure_channel(shared_server.grpc_address) as channel:
        assert check(channel, request(service)) == SERVING
        watched = watch(channel, service)
        assert next(watched) == SERVING
        watched.cancel()


@each_row(("content", "code"), [(request("other"), "NOT_FOUND"), (b"\xff", "INVALID_ARGUMENT")])
def test_a_wrong_request_is_the_clients_fault(shared_server, content, code):
    with grpc.insecure_channel(shared_server.grpc_address) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            check(channel, content)
        assert refused.value.code().name == code
        watched = watch(channel, "other")
        assert next(watched) == SERVICE_UNKNOWN
        watched.cancel()


def test_it_follows_the_model_and_the_end_of_the_server(start, repository):
    server = start("--grpc_port=0", "--warmup_budget_seconds=0", "--drain_delay_seconds=600")
    with grpc.insecure_channel(server.grpc_address) as channel:
        assert check(channel, request("")) == NOT_SERVING
        watched = watch(channel, "")
        assert next(watched) == NOT_SERVING
        repository.publish(1)
        assert next(watched) == SERVING
        server.terminate()
        assert next(watched) == NOT_SERVING
        assert check(channel, request("")) == NOT_SERVING
        server.terminate()
        with pytest.raises(grpc.RpcError) as ended:
            next(watched)
        assert (ended.value.code().name, "the server stops" in ended.value.details()) == ("UNAVAILABLE", True)
    assert server.wait() == 0
