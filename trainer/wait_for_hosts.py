"""Wait until every host answers: `python3 -m trainer.wait_for_hosts --timeout_seconds 300 host:port …`.

Run before `mpirun`, which gives up where a pod's name is not in the DNS yet or its sshd does not listen yet; a pod in
phase Running promises neither. Standard library only, so that it starts at once in any image.
"""

from __future__ import annotations

import argparse
import re
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERVAL_SECONDS = 0.5
_MOST_THREADS = 64
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
    """Whom to wait for, and for how long."""

    endpoints: tuple[Endpoint, ...]
    timeout_seconds: float
    connect_timeout_seconds: float
    """Longest wait for one answer; a packet that a network policy drops is never answered."""


def parse(arguments: Sequence[str] | None = None) -> WaitConfig:
    """Read the command line.

    Raises:
        SystemExit: 0 after `--help`, 2 after saying which value is wrong and the fix.
    """
    parser = argparse.ArgumentParser(prog="python -m trainer.wait_for_hosts", description=__doc__)
    parser.add_argument("endpoints", nargs="*", metavar="HOST:PORT", help="an address to wait for")
    parser.add_argument("--file", type=Path, help="an MPI hostfile: one host a line, what follows it is not looked at")
    parser.add_argument("--port", type=int, help="port of the hosts in --file")
    parser.add_argument("--timeout_seconds", type=float, default=300, help="longest wait for all of them")
    parser.add_argument("--connect_timeout_seconds", type=float, default=5, help="longest wait for one answer")
    known = parser.parse_args(arguments)
    try:
        return WaitConfig(
            endpoints=_all_endpoints(known.endpoints, known.file, known.port),
            timeout_seconds=_positive("timeout_seconds", known.timeout_seconds),
            connect_timeout_seconds=_positive("connect_timeout_seconds", known.connect_timeout_seconds),
        )
    except (ValueError, OSError) as error:
        parser.error(str(error))


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


def _all_endpoints(words: list[str], file: Path | None, port: int | None) -> tuple[Endpoint, ...]:
    if (file is None) != (port is None):
        raise ValueError(f"file={file}, port={port}: only one of the two is given. Fix: both, or neither")
    endpoints = [_endpoint(word) for word in words]
    if file is not None and port is not None:
        endpoints += [Endpoint(host, _port("port", port)) for host in read_hostfile(file.read_text(encoding="utf-8"))]
    if not endpoints:
        raise ValueError("endpoints: there is no host to wait for. Fix: HOST:PORT …, or --file and --port")
    return tuple(dict.fromkeys(endpoints))


def _endpoint(word: str) -> Endpoint:
    found = _ENDPOINT.fullmatch(word)
    if not found or not _HOST.fullmatch(found["host"]):
        raise ValueError(f"endpoints: {word!r} is not HOST:PORT. Fix: for example job-worker-0.job:2222")
    return Endpoint(found["host"], _port("endpoints", int(found["port"])))


def _port(field: str, value: int) -> int:
    if not 1 <= value <= 65535:
        raise ValueError(f"{field}={value}: must be from 1 to 65535")
    return value


def _positive(field: str, value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError(f"{field}={value}: must be more than 0")
    return value


if __name__ == "__main__":
    sys.exit(main())
