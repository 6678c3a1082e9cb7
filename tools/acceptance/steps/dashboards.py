"""The dashboards step: Prometheus' data for the GPU panels while GPUs compute."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from infra.monitoring import NAMESPACE, PROMETHEUS, PROMETHEUS_PORT
from tools.acceptance.findings import SkippedError, StepFailedError
from tools.acceptance.steps.gpus import SIMULATED, simulated

if TYPE_CHECKING:
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site
    from tools.operations.dashboards.answers import PanelAnswer

_MINUTES = 30


def dashboards(site: Site, findings: Findings) -> None:
    """Draw the dashboards and count the panels with data.

    Raises:
        SkippedError: the stack has no Prometheus of its own, or no real GPU.
        StepFailedError: no GPU panel shows anything.
    """
    if site.settings.monitoring.kind != "operator":
        raise SkippedError(
            f"monitoring.kind is {site.settings.monitoring.kind}: the stack has no Prometheus of its own"
        )
    if not any(site.nodes(pool.name) for pool in site.pools):
        raise SkippedError("no GPU pool has a node")
    if all(simulated(site, pool) for pool in site.pools):
        raise SkippedError("; ".join(f"pool {pool.name}: {SIMULATED}" for pool in site.pools))
    # What draws takes a second to import, which no other command needs to wait for.
    from tools.operations.dashboards.commands import View, draw, write  # noqa: PLC0415
    from tools.operations.dashboards.prometheus import Prometheus  # noqa: PLC0415

    with site.kubectl.port_forward(f"service/{PROMETHEUS}", NAMESPACE, PROMETHEUS_PORT) as address:
        pages = draw(Prometheus(address), View(minutes=_MINUTES), time.time())
    findings.figure("pages", write(pages, site.folder / "dashboards"))
    for page in pages:
        findings.figure(page.board["title"], f"{page.with_data} of {len(page.answers)} panels with data")
    panels = [(page.board["title"], one) for page in pages for one in page.answers.values() if _about_gpus(one)]
    lines = [f"{'data' if one.has_data else 'nothing':8}{board} / {one.title}" for board, one in panels]
    findings.saw(f"panels about GPUs, the last {_MINUTES} minutes", "\n".join(lines))
    for board, one in panels:
        if not one.has_data:
            findings.compare(f"panel {one.title!r} of {board}", "data", "nothing")
    if not any(one.has_data for _, one in panels):
        raise StepFailedError("no panel about GPUs shows anything")


def _about_gpus(panel: PanelAnswer) -> bool:
    return any(word in answer.expr.lower() for answer in panel.answers for word in ("gpu", "dcgm"))
