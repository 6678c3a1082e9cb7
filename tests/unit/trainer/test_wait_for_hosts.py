from __future__ import annotations

import socket

import pytest

from tests.tables import each_row
from trainer import wait_for_hosts
from trainer.wait_for_hosts import Endpoint, main, parse, read_hostfile


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # held, so that nobody else listens there, but does not answer
        yield held.getsockname()[1]


def test_returns_0_when_all_answer(listener, tmp_path):
    file = tmp_path / "hostfile"
    file.write_text("127.0.0.1 slots=8\n\n# a comment\nlocalhost slots=8 # another\n")
    assert main([f"127.0.0.1:{listener}", "--file", str(file), "--port", str(listener)]) == 0


def test_names_each_host_that_does_not_answer_and_why(listener, closed_port, capsys):
    hosts = [f"127.0.0.1:{listener}", f"127.0.0.1:{closed_port}", "no-such-host.invalid:2222"]
    assert main([*hosts, "--timeout_seconds", "0.1"]) == 1
    said = capsys.readouterr().err
    assert "2 of 3 hosts do not answer after 0.1 s" in said
    assert f"127.0.0.1:{closed_port}: Connection refused" in said
    assert "no-such-host.invalid:2222: the name does not resolve: " in said
    assert f"127.0.0.1:{listener}" not in said


def test_waits_for_a_host_that_comes_later(closed_port, monkeypatch):
    attempts = []

    def attempt(endpoint, _timeout):
        attempts.append(endpoint)
        return "" if len(attempts) == 3 else "not yet"

    monkeypatch.setattr(wait_for_hosts, "_try", attempt)
    monkeypatch.setattr(wait_for_hosts, "_INTERVAL_SECONDS", 0)
    assert main([f"127.0.0.1:{closed_port}"]) == 0
    assert attempts == [Endpoint("127.0.0.1", closed_port)] * 3


def test_does_not_ask_again_who_has_answered(monkeypatch):
    attempts = []

    def attempt(endpoint, _timeout):
        attempts.append(endpoint.host)
        return "" if endpoint.host == "a" or attempts.count("b") == 2 else "not yet"

    monkeypatch.setattr(wait_for_hosts, "_try", attempt)
    monkeypatch.setattr(wait_for_hosts, "_INTERVAL_SECONDS", 0)
    assert main(["a:1", "b:1"]) == 0
    assert sorted(attempts) == ["a", "b", "b"]


def test_reads_the_hostfiles_of_open_mpi_and_mpich():
    assert read_hostfile("j-worker-0.j slots=8\nj-worker-1.j:4\n#j-worker-2.j\n") == ["j-worker-0.j", "j-worker-1.j"]
    with pytest.raises(ValueError, match="line 2: '-x' is not a host name"):
        read_hostfile("a\n-x slots=1\n")


@each_row(
    ("arguments", "message"),
    [
        ([], "there is no host to wait for. Fix:"),
        (["host"], "'host' is not HOST:PORT. Fix:"),
        (["host:0"], "hosts: port=0: must be from 1 to 65535"),
        (["host:22", "--port", "22"], "file=None, port=22: only one of the two is given. Fix:"),
        (["--file", "/nowhere", "--port", "22"], "/nowhere"),
        (["host:22", "--timeout_seconds", "0"], "timeout_seconds=0.0: must be more than 0"),
    ],
)
def test_refuses_what_makes_no_sense(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        parse(arguments)
    assert exit_.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())  # the parser wraps its lines


def test_asks_for_an_address_once_however_often_it_is_named():
    assert parse(["a:1", "[fd00::1]:2", "a:1"]).endpoints == (Endpoint("a", 1), Endpoint("fd00::1", 2))
