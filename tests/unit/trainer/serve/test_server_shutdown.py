"""SIGTERM: not ready at once, serving on while clients are sent elsewhere, nothing dropped, an end in bounded time."""

import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.trainer.serve.conftest import GATHERING

INFER = "/v2/models/digits/infer"


@pytest.fixture
def serving(start, repository):
    """Starts a server on version 1."""

    def start_serving(*flags, **version):
        repository.publish(1, **version)
        server = start("--warmup_budget_seconds=0", *flags)
        server.wait_until("/v2/health/ready")
        return server

    return start_serving


def test_queue_is_finished_and_exit_status_is_0(serving, repository, document):
    repository.configure(GATHERING)
    server = serving()
    with ThreadPoolExecutor(7) as pool:
        answers = [pool.submit(server.request, "POST", INFER, document()) for _ in range(7)]
        server.wait_until_metric("nv_inference_pending_request_count", 7)
        server.terminate()
        assert {answer.result()[0] for answer in answers} == {200}
    assert server.wait() == 0


def test_draining_server_serves_but_is_not_ready_and_ends_connections(serving, document):
    server = serving("--drain_delay_seconds=600")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/v2/health/live")
    assert connection.getresponse().read()
    server.terminate()
    server.wait_for_log("stopping: not ready")
    connection.request("POST", INFER, json.dumps(document()))
    response = connection.getresponse()
    assert (response.status, response.headers["connection"]) == (200, "close")
    assert response.read()
    assert server.get("/v2/health/ready")[0] == 503
    assert server.get("/v2/models/digits/ready")[0] == 503
    assert server.get("/v2/health/live")[0] == 200
    # new connections are still answered
    assert server.request("POST", INFER, document())[0] == 200
    server.terminate()
    assert server.wait() == 0


def test_it_serves_as_long_as_clients_are_sent_here(serving, document):
    server = serving("--drain_delay_seconds=0.3")
    server.terminate()
    server.wait_for_log("stopping: not ready")
    until = time.monotonic() + 3 * 0.3
    while time.monotonic() < until:
        assert server.request("POST", INFER, document())[0] == 200
    assert server.wait() == 0


def test_clients_that_keep_coming_do_not_keep_it_forever(serving, document):
    server = serving("--drain_delay_seconds=0.3", "--drain_timeout_seconds=1")
    server.terminate()

    def is_answered():
        try:
            return server.request("POST", INFER, document())[0] == 200
        except OSError:
            return False

    while is_answered():
        pass
    assert server.wait() == 0


def test_model_that_does_not_return_is_left_behind(serving, endless, document):
    server = serving("--drain_timeout_seconds=1", module=endless)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.request, "POST", INFER, document(value=9.0))
        server.wait_until_metric("athanor_running_batches", 1)
        server.terminate()
        status, headers, body = answer.result()
    assert (status, headers["x-athanor-retry"]) == (503, "elsewhere")
    assert "stopped before the model answered" in body["error"]
    assert server.wait() == 0


def test_clients_that_hold_connections_do_not_hold_the_server(serving):
    server = serving("--drain_timeout_seconds=1")
    idle, half = server.raw(), server.raw()
    half.sendall(b"POST /v2/models/digits/infer HTTP/1.1\r\ncontent-length: 100\r\n\r\nhalf")
    server.terminate()
    assert server.wait() == 0
    idle.close()
    half.close()


def test_stop_while_waiting_for_a_model(start):
    server = start()
    server.terminate()
    assert server.wait() == 0


def test_port_in_use_is_named(start):
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(AssertionError, match="Address already in use"),
    ):
        start(f"--http_port={taken.getsockname()[1]}")


def test_runs_unprivileged_and_writes_nothing(start, repository, tmp_path, document):
    repository.publish(1)
    folder = tmp_path / "empty"
    folder.mkdir(mode=0o555)
    server = start(environment={"HOME": str(folder), "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder)})
    server.wait_until("/v2/health/ready")
    assert server.request("POST", INFER, document())[0] == 200
    assert list(folder.iterdir()) == []
