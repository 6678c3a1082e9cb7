"""Whether an API server answers: one that takes connections and says nothing, and ones that say something."""

from __future__ import annotations

import socket
import threading

import pytest

from athanor.runs import reach
from athanor.runs.reach import is_silent
from tests.tables import each_row


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(reach, "_SECONDS", 0.3)
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _address(server: socket.socket) -> str:
    return f"https://127.0.0.1:{server.getsockname()[1]}"


def test_one_that_takes_connections_and_says_nothing_is_silent(listener):
    assert is_silent(_address(listener))


def test_one_behind_a_proxy_is_left_to_kubectl(listener, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    assert not is_silent(_address(listener))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert is_silent(_address(listener))


def test_of_a_server_behind_the_kubeconfigs_proxy_the_proxy_is_asked(listener, monkeypatch):
    """The server's own address may lead nowhere from here; a proxy that waits for it has taken the connection."""
    silent, proxy = _address(listener), f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert not is_silent(silent, proxy=proxy)
    assert not is_silent(silent, proxy=proxy.replace("http", "socks5"))
    assert is_silent("https://10.255.255.1:6443", proxy=silent), "a proxy over TLS that never greets"
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    assert is_silent(silent, proxy=silent), "the kubeconfig's stands above the environment's"


def test_the_server_is_greeted_by_the_name_in_its_certificate(listener):
    greeting: list[bytes] = []

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            greeting.append(connection.recv(4096))

    answering = threading.Thread(target=answer)
    answering.start()
    assert not is_silent(_address(listener), tls_name="kubernetes.internal")
    answering.join()
    assert b"kubernetes.internal" in greeting[0]


def test_any_answer_is_one(listener):
    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1)
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    answering = threading.Thread(target=answer)
    answering.start()
    assert not is_silent(_address(listener))
    answering.join()


@each_row("address", ["https://127.0.0.1:1", "https://", "nonsense", "https://[::1", "https://h:port"])
def test_what_kubectl_refuses_at_once_is_left_to_it(address):
    assert not is_silent(address)
