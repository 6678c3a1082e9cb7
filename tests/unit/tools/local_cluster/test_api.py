"""Calls to the API server of a local cluster that fail are sentences, never tracebacks."""

import socket
from pathlib import Path

import pytest

from tools.local_cluster import api
from tools.local_cluster.api import ApiClient, ApiUnreachableError
from tools.local_cluster.pki import Identity


class PlainClient(ApiClient):
    _context = None
    """The usual one: nothing here is answered, so no certificate is needed."""


@pytest.fixture
def silent_server():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def client(port):
    return PlainClient("127.0.0.1", port, Path("ca.crt"), Identity(Path("admin.crt"), Path("admin.key")))


def test_a_server_that_does_not_answer_in_time_is_named_with_the_request(silent_server, monkeypatch):
    monkeypatch.setattr(api, "_READY_SECONDS", 0.01)
    with pytest.raises(ApiUnreachableError, match=rf"127.0.0.1:{silent_server} did not answer GET /version: .*Fix: "):
        client(silent_server).request("GET", "/version", timeout_seconds=0.01)
    assert not client(silent_server).is_ready()


def test_a_port_where_nobody_listens_is_named():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ApiUnreachableError, match=r"did not answer PATCH /api: .*refused"):
        client(port).request("PATCH", "/api")
