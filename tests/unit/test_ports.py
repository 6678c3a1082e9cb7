"""Ports that a test holds for a program."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.ports import held_port


def test_servers_listen_on_a_held_port_one_after_the_other_and_clients_of_none_are_refused():
    with held_port() as port:
        for _ in range(2):
            with HTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler):
                socket.create_connection(("127.0.0.1", port)).close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))


def test_a_held_port_is_nobody_elses_until_the_end():
    with held_port() as port, socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with held_port(port) as again:
        assert again == port
