"""A long-running program of the cluster: its start and its health check."""

from __future__ import annotations

import hashlib
import http.client
import signal
import socket
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.files import write_atomically
from tools.local_cluster.processes import send_signal, wait_until_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tools.local_cluster.node import Node
    from tools.local_cluster.processes import Process

PROBE_TIMEOUT_SECONDS = 3.0
GARBAGE_PERCENT = 100
"""Percent by which a Go program's heap may grow before its garbage is collected: Go's default, whatever the shell says.
With 40, the API server is 80 MB smaller and takes half as much CPU again, 30 s for one `make up` in place of 22 s."""


@dataclass(frozen=True, kw_only=True)
class Component:
    """A program that runs in the node for as long as the node does."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[Path, str] = field(default_factory=dict["Path", str])
    """Configuration files, written before it starts. A name that holds the content's digest (see
    `configuration_file`) makes a changed file a changed command, and so a restart."""
    address: str = ""
    """Its address, for people to read."""
    probe: Callable[[Node], bool]
    """Returns whether it works; must not raise."""

    def process(self, node: Node) -> Process | None:
        """Return its process, or None where it does not run, or runs with another command than it should."""
        return self.among(node.started())

    def among(self, started: Iterable[Process]) -> Process | None:
        """Return its process among those that were started in the node; None as in `process`."""
        return next((process for process in started if process.arguments == self.command), None)

    def start(self, node: Node) -> None:
        """Start it where it does not run; one that runs with another command is ended first."""
        if self.process(node) is not None:
            return
        self.end(node)
        for file, text in self.files.items():
            write_atomically(file, text)
        log = node.layout.logs / f"{self.name}.log"
        node.spawn(self.command, env=self.environment, log=log, component=self.name)

    def end(self, node: Node) -> None:
        """End every process of this program in the node."""
        for process in node.started():
            if process.arguments[:1] == self.command[:1]:
                send_signal(process, signal.SIGKILL)
                wait_until_ended([process], timeout_seconds=PROBE_TIMEOUT_SECONDS)


def go_memory(limit_mib: int) -> dict[str, str]:
    """Return the variables that keep a Go program small: a soft limit of its heap, and `GARBAGE_PERCENT`."""
    return {"GOMEMLIMIT": f"{limit_mib}MiB", "GOGC": str(GARBAGE_PERCENT)}


def configuration_file(folder: Path, name: str, text: str) -> Path:
    """Return a path for a configuration file that is another one whenever the content is."""
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}-{name}"


def http_probe(address: str, port: int, path: str, *, tls: bool = False) -> Callable[[Node], bool]:
    """Return a probe that wants status 200 from a URL inside the node."""

    def probe(node: Node) -> bool:
        try:
            return node.in_network(lambda: _status(address, port, path, tls=tls)) == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    return probe


def _status(address: str, port: int, path: str, *, tls: bool) -> int:
    if tls:
        # a component's self-made certificate names nobody; what is asked is only whether it is well
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(address, port, timeout=PROBE_TIMEOUT_SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(address, port, timeout=PROBE_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def unix_socket_probe(path: Path) -> Callable[[Node], bool]:
    """Return a probe that wants somebody to answer at a Unix socket."""

    def probe(_: Node) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PROBE_TIMEOUT_SECONDS)
            try:
                connection.connect(str(path))
            except OSError:
                return False
        return True

    return probe
