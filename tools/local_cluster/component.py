"""A long-running program of the cluster: how it is started, and how one tells that it does its work."""

from __future__ import annotations

import hashlib
import http.client
import signal
import socket
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.local_cluster.processes import send_signal, wait_until_ended
from tools.local_cluster.state import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tools.local_cluster.node import Node
    from tools.local_cluster.processes import Process

PROBE_TIMEOUT_SECONDS = 3.0


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
    """Where it listens, for people to read."""
    probe: Callable[[Node], bool]
    """Tells whether it does its work; must not raise."""

    def process(self, node: Node) -> Process | None:
        """Return its process, or None where it does not run, or runs with another command than it should."""
        init = node.init()
        for process in node.processes():
            if init and process.parent == init.pid and process.arguments == self.command:
                return process
        return None

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
        init = node.init()
        for process in node.processes():
            if init and process.parent == init.pid and process.arguments[:1] == self.command[:1]:
                send_signal(process, signal.SIGKILL)
                wait_until_ended([process], timeout_seconds=PROBE_TIMEOUT_SECONDS)


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
        context = ssl.create_default_context()
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
