"""The tables a person sees: what runs where, and how `make up` ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tools.local_cluster import ComponentStatus


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str | None = None) -> Table:
    """Return a table in the project's look, with a line below it where there is something to add."""
    shown = Table(
        *columns,
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for row in rows:
        shown.add_row(*row)
    return shown


def component_rows(components: Iterable[ComponentStatus]) -> list[list[str]]:
    """Return a row per process of the local cluster."""
    return [
        [
            part.name,
            "[green]healthy[/]" if part.healthy else "[red]down[/]",
            f"{part.resident_bytes // 2**20} MiB",
            part.address,
        ]
        for part in components
    ]


def pod_rows(pods: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return a row per pod: namespace, name, phase, node, restarts."""
    return [
        [
            pod["metadata"].get("namespace", "-"),
            pod["metadata"]["name"],
            _phase(pod),
            pod["spec"].get("nodeName", "-"),
            str(_restarts(pod)),
        ]
        for pod in pods
    ]


def _phase(pod: dict[str, Any]) -> str:
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
    phase: str = pod["status"].get("phase", "Unknown")
    if phase == "Running":
        return "[green]Ready[/]" if ready else "[yellow]Running, not ready[/]"
    return phase


def _restarts(pod: dict[str, Any]) -> int:
    return sum(container.get("restartCount", 0) for container in pod["status"].get("containerStatuses", []))
