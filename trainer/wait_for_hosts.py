"""Waits until every host answers: `python3 -m trainer.wait_for_hosts --timeout_seconds 300 host:port …`.

Run before `mpirun`, which gives up where a pod's name is not in the DNS yet or its sshd does not listen yet; a pod in
phase Running promises neither.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time
from typing import TYPE_CHECKING, NamedTuple

from tyro.conf import Positional  # noqa: TC002  as above

from trainer.common import command_line
from trainer.common.validation import between, more_than

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERVAL_SECONDS = 0.5
_MOST_THREADS = 64
_LAST_PORT = 65535
_ENDPOINT = re.compile(r"\[?(?P<host>[^\s\[\]]+?)\]?:(?P<port>\d{1,5})")
_HOST = re.compile(r"[A-Za-z0-9:]([-A-Za-z0-9_.:]*[A-Za-z0-9])?")


class Endpoint(NamedTuple):
    """A TCP address; prints as `host:port`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class WaitConfig:
    """Wait until every host accepts a connection."""

    hosts: Positional[tuple[str, ...]] = ()
    """Addresses to wait for, each as HOST:PORT."""
    file: Path | None = None
    """An MPI hostfile to add: one host per line, followed by anything."""
    port: int | None = None
    """Port of the hosts in --file."""
    timeout_seconds: float = 300
    """Longest wait for all of them."""
    connect_timeout_seconds: float = 5
    """Longest wait for one answer; a packet that a network policy drops is never answered."""

    def __post_init__(self) -> None:
        more_than("timeout_seconds", self.timeout_seconds, 0)
        more_than("connect_timeout_seconds", self.connect_timeout_seconds, 0)
        if not self.endpoints:
            raise ValueError("hosts: there is no host to wait for. Fix: HOST:PORT …, or --file and --port")

    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All addresses, each once.

        Raises:
            ValueError: one is not HOST:PORT, or the hostfile cannot be read.
        """
        if (self.file is None) != (self.port is None):
            raise ValueError(f"file={self.file}, port={self.port}: only one of the two is given. Fix: both, or neither")
        endpoints = [_endpoint(word) for word in self.hosts]
        if self.file is not None and self.port is not None:
            between("port", self.port, 1, _LAST_PORT)
            endpoints += [Endpoint(host, self.port) for host in _hosts_in(self.file)]
        return tuple(dict.fromkeys(endpoints))


def parse(arguments: Sequence[str] | None = None) -> WaitConfig:
    """Read the command line; see `command_line.parse`."""
    return command_line.parse(WaitConfig, "trainer.wait_for_hosts", arguments)


def read_hostfile(text: str) -> list[str]:
    """Return the hosts of an MPI hostfile: `host slots=8` (Open MPI) or `host:8` (MPICH), `#` begins a comment.

    Raises:
        ValueError: a line that names no host.
    """
    hosts: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        host = re.sub(r":\d+$", "", words[0])
        if not _HOST.fullmatch(host):
            raise ValueError(f"file: line {number}: {words[0]!r} is not a host name. Fix: `host slots=N`")
        hosts.append(host)
    return hosts


def missing(config: WaitConfig) -> dict[Endpoint, str]:
    """Wait until all answer or the time is over.

    Returns:
        Those that do not answer, each with the reason of the last attempt; empty when all answered once.
    """
    deadline = time.monotonic() + config.timeout_seconds
    waiting = dict.fromkeys(config.endpoints, "not tried")
    with ThreadPoolExecutor(max_workers=min(_MOST_THREADS, len(waiting))) as pool:
        while True:
            reasons = pool.map(_try, waiting, repeat(config.connect_timeout_seconds))
            former, waiting = waiting, {host: why for host, why in zip(waiting, reasons, strict=True) if why}
            for endpoint in former.keys() - waiting.keys():
                print(f"wait_for_hosts: {endpoint} answers, {len(waiting)} to go", flush=True)
            left = deadline - time.monotonic()
            if not waiting or left <= 0:
                return waiting
            time.sleep(min(_INTERVAL_SECONDS, left))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 when all answer, 1 after naming those that do not and why."""
    config = parse(arguments)
    silent = missing(config)
    if not silent:
        return 0
    total = len(config.endpoints)
    print(
        f"wait_for_hosts: {len(silent)} of {total} hosts do not answer after {config.timeout_seconds:g} s:",
        *(f"  {endpoint}: {reason}" for endpoint, reason in silent.items()),
        sep="\n",
        file=sys.stderr,
    )
    return 1


def _try(endpoint: Endpoint, timeout_seconds: float) -> str:
    """Return why an endpoint does not accept a connection, or nothing where it does."""
    try:
        socket.create_connection(endpoint, timeout=timeout_seconds).close()
    except socket.gaierror as error:
        return f"the name does not resolve: {error.strerror}"
    except TimeoutError:
        return f"no answer within {timeout_seconds:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _hosts_in(file: Path) -> list[str]:
    try:
        return read_hostfile(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"file={file}: {error.strerror}. Fix: the path of an MPI hostfile") from error


def _endpoint(word: str) -> Endpoint:
    match = _ENDPOINT.fullmatch(word)
    if not match or not _HOST.fullmatch(match["host"]):
        raise ValueError(f"hosts: {word!r} is not HOST:PORT. Fix: for example job-worker-0.job:2222")
    port = int(match["port"])
    between("hosts: port", port, 1, _LAST_PORT)
    return Endpoint(match["host"], port)


if __name__ == "__main__":
    sys.exit(main())
