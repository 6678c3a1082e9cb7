"""The tasks of a TensorFlow job: TF_CONFIG, and the wait until they can be reached. Needs no TensorFlow.

Source of the format: TensorFlow's guide "Distributed training", section "TF_CONFIG".
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VARIABLE = "TF_CONFIG"
# In the order of ranks: the chief is rank 0 and its messages are those that people see.
ROLES = ("chief", "worker", "ps", "evaluator")

_RETRY_SECONDS = 0.25
_CONNECT_SECONDS = 2.0


class ClusterError(Exception):
    """TF_CONFIG cannot be used, or the others were not found in time; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The tasks of a job and which of them this process is."""

    tasks: dict[str, tuple[str, ...]]
    """Addresses host:port of every task, by role."""
    role: str
    index: int

    @property
    def rank(self) -> int:
        """Number of this process among all, from 0."""
        before = ROLES[: ROLES.index(self.role)]
        return sum(len(self.tasks.get(role, ())) for role in before) + self.index

    @property
    def name(self) -> str:
        """Role and index, for people."""
        return f"{self.role} {self.index}"

    @property
    def sizes(self) -> dict[str, int]:
        """Number of tasks by role."""
        return {role: len(addresses) for role, addresses in self.tasks.items()}

    @property
    def training_tasks(self) -> dict[str, list[str]]:
        """The tasks that talk to each other: all but the evaluator, which only reads checkpoints."""
        return {role: list(addresses) for role, addresses in self.tasks.items() if role != "evaluator"}


def from_environment() -> Cluster | None:
    """Return the cluster in TF_CONFIG; None where it is not set.

    Raises:
        ClusterError: it is not what TensorFlow expects.
    """
    text = os.environ.get(VARIABLE, "")
    return parse(text) if text else None


def parse(text: str) -> Cluster:
    """Return the cluster in a TF_CONFIG.

    Raises:
        ClusterError: it is not JSON, names unknown roles or bad addresses, or a task that is not in it.
    """
    try:
        document: Any = json.loads(text)
        tasks = {str(role): _addresses(role, value) for role, value in document["cluster"].items()}
        role, index = str(document["task"]["type"]), int(document["task"]["index"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        form = '{"cluster": {role: ["host:port", …]}, "task": {"type": role, "index": 0}}'
        raise ClusterError(f"{VARIABLE}={text[:500]!r}: {error!r}. Fix: {form}") from error
    unknown = sorted({*tasks, role} - set(ROLES))
    if unknown:
        raise ClusterError(f"{VARIABLE}: role {unknown[0]!r}: must be one of {', '.join(ROLES)}. Fix: rename it")
    # evaluators are often left out of the cluster: nobody connects to them
    present = len(tasks.get(role, ())) or (1 if role == "evaluator" else 0)
    if not 0 <= index < present:
        fix = "Fix: name a task of the cluster"
        raise ClusterError(f"{VARIABLE}: task {role} {index}: the cluster has {present} of that role. {fix}")
    return Cluster(tasks={role: tasks[role] for role in ROLES if role in tasks}, role=role, index=index)


def wait_for_names(cluster: Cluster, roles: Iterable[str], *, seconds: float) -> None:
    """Wait until the names of all tasks of these roles resolve: DNS knows a pod only once it has an address.

    Raises:
        ClusterError: one does not in time.
    """
    _wait_for(cluster, roles, socket.getaddrinfo, seconds=seconds)


def wait_for_servers(cluster: Cluster, roles: Iterable[str], *, seconds: float) -> None:
    """Wait until all tasks of these roles accept connections.

    Raises:
        ClusterError: one does not in time.
    """

    def connect(host: str, port: int) -> None:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()

    _wait_for(cluster, roles, connect, seconds=seconds)


def _wait_for(cluster: Cluster, roles: Iterable[str], attempt: Callable[[str, int], object], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    missing = {
        f"{role} {index} ({address})": _split(address)
        for role in roles
        for index, address in enumerate(cluster.tasks.get(role, ()))
        if (role, index) != (cluster.role, cluster.index)
    }
    reason = ""
    while missing:
        for name, (host, port) in list(missing.items()):
            try:
                attempt(host, port)
                del missing[name]
            except OSError as error:
                reason = f"{name}: {error.strerror or error}"
        if not missing:
            return
        if time.monotonic() > deadline:
            fix = "Fix: see why that pod does not run, or wait longer with --init_timeout_seconds"
            waited = f"after init_timeout_seconds={seconds:g} {len(missing)} tasks cannot be reached"
            raise ClusterError(f"{cluster.name}: {waited}, the last is {reason}. {fix}")
        time.sleep(_RETRY_SECONDS)


def _addresses(role: str, value: Any) -> tuple[str, ...]:  # noqa: ANN401  a part of a JSON document
    if not isinstance(value, list) or not value:
        raise ValueError(f"{role} must be a list of addresses")
    addresses = tuple(map(str, cast("list[Any]", value)))
    for address in addresses:
        _split(address)
    return addresses


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        raise ValueError(f"address {address!r} must be host:port")
    return host.strip("[]"), int(port)
