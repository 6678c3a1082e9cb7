"""Startup of the components, and the wait until they, the node and DNS are ready."""

from __future__ import annotations

import math
import os
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tools.local_cluster.api import ApiClient, ApiError, ApiUnreachableError
from tools.local_cluster.errors import ClusterError
from tools.local_cluster.node import tail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.local_cluster.component import Component
    from tools.local_cluster.node import Node
    from tools.local_cluster.processes import Process

POLL_SECONDS = 0.05
COMPONENT_TIMEOUT_SECONDS = 90.0
MAXIMUM_RESTARTS = 5


class StartError(ClusterError):
    """Something did not come up; the message holds the end of its log."""


def bring_up(node: Node, components: Sequence[Component]) -> None:
    """Start components together and wait until each does its work, restarting one that ends or hangs.

    Raises:
        StartError: one still does not work after 90 s or its fifth restart.
    """
    for component in components:
        component.start(node)
    for component in components:
        _await_component(node, component)


def _await_component(node: Node, component: Component) -> None:
    deadline = time.monotonic() + COMPONENT_TIMEOUT_SECONDS
    replaced_when_hung = False
    restarts = 0
    while not component.probe(node):
        late = time.monotonic() > deadline
        if component.process(node) is None and restarts < MAXIMUM_RESTARTS and not late:
            restarts += 1
            component.start(node)
        elif late and not replaced_when_hung:
            # it runs but does not answer, for instance because it was stopped by a signal
            replaced_when_hung = True
            deadline += COMPONENT_TIMEOUT_SECONDS
            component.end(node)
            component.start(node)
        elif late or restarts >= MAXIMUM_RESTARTS:
            log = node.layout.logs / f"{component.name}.log"
            raise StartError(f"{component.name} does not work; {log} ends with:\n{tail(log)}")
        time.sleep(POLL_SECONDS)


def await_condition(what: str, condition: Callable[[], bool], *, timeout_seconds: float, log: Path) -> None:
    """Wait for a condition.

    Raises:
        StartError: it does not hold after the time given.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise StartError(f"{what} after {timeout_seconds:.0f} s; {log} ends with:\n{tail(log)}")
        time.sleep(POLL_SECONDS)


def is_node_ready(api: ApiClient, name: str, since: float) -> bool:
    """Return whether the node is Ready according to the kubelet that started then (epoch seconds), not an older one."""
    try:
        conditions = api.get(f"/api/v1/nodes/{name}")["status"].get("conditions", [])
    except (ApiUnreachableError, ApiError):
        return False
    ready = next((condition for condition in conditions if condition["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True":
        return False
    return datetime.fromisoformat(ready["lastHeartbeatTime"]).timestamp() >= math.floor(since)


def started_at(process: Process) -> float:
    """Return when a process started, in seconds since the epoch."""
    uptime_seconds = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return time.time() - uptime_seconds + process.start_ticks / os.sysconf("SC_CLK_TCK")
