"""The tables a person sees: what runs where, and how `make up` ended."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tools.kubectl import Kubectl
    from tools.local_cluster import ComponentStatus


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table in the project's look."""
    shown = Table(*columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
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


def pod_rows(kubectl: Kubectl, namespaces: Iterable[str]) -> list[list[str]]:
    """Return a row per pod: namespace, name, phase, node, restarts."""
    return [
        [namespace, pod["metadata"]["name"], _phase(pod), pod["spec"].get("nodeName", "-"), str(_restarts(pod))]
        for namespace in namespaces
        for pod in kubectl.items("pods", namespace)
    ]


def job_rows(kubectl: Kubectl, namespace: str) -> list[list[str]]:
    """Return a row per Volcano Job: name, phase, its pods by phase, queue, restarts so far."""
    rows: list[list[str]] = []
    for job in kubectl.items("jobs.batch.volcano.sh", namespace):
        name = job["metadata"]["name"]
        # Counted here, because Volcano's own counts are gone from the status once a job has completed.
        pods = Counter(
            pod["status"]["phase"] for pod in kubectl.items("pods", namespace, f"volcano.sh/job-name={name}")
        )
        counted = ", ".join(f"{number} {phase.lower()}" for phase, number in sorted(pods.items())) or "none yet"
        status = job.get("status", {})
        phase = status.get("state", {}).get("phase", "accepted")
        rows.append([name, phase, counted, job["spec"]["queue"], str(status.get("retryCount", 0))])
    return rows


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
