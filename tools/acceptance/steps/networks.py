"""The networks step: NCCL between two nodes over every network that a pool has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.acceptance.findings import SkippedError, StepFailedError
from tools.acceptance.steps.gpus import SIMULATED, simulated
from tools.acceptance.workload_requests import PODS_TO_COMPARE, measurements

if TYPE_CHECKING:
    from infra.settings.node_pools import NodePoolSettings
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site
    from tools.acceptance.workload_requests import Measurement


def networks(site: Site, findings: Findings) -> None:
    """Measure all-reduce, one network after the other, on the same nodes.

    Raises:
        SkippedError: no pool has two real nodes.
        StepFailedError: a measurement failed.
    """
    for reason in _left_out(site):
        findings.figure(reason, "skipped")
    measured = [pool for pool in site.pools if not _why_not(site, pool)]
    if not measured:
        raise SkippedError("; ".join(f"pool {pool.name}: {_why_not(site, pool)}" for pool in site.pools))
    wrong: list[str] = []
    for pool in measured:
        for one in measurements(pool, site.settings.pod_security):
            wrong += _measure(site, findings, one)
    if wrong:
        raise StepFailedError("; ".join(wrong))


def _measure(site: Site, findings: Findings, one: Measurement) -> list[str]:
    # Alone: two jobs that want the same nodes would wait for each other.
    jobs = site.jobs.declare([one])
    try:
        text = site.jobs.completed(jobs[one.name], findings, site.patience.job)
    except StepFailedError as error:
        return [str(error)]
    if one.rdma and "NET/IB" not in text:
        findings.compare(f"{one.name}: what NCCL says it uses", "NET/IB", "no line with NET/IB")
        return [f"{one.name}: NCCL fell back to TCP"]
    return []


def _why_not(site: Site, pool: NodePoolSettings) -> str:
    if simulated(site, pool):
        return SIMULATED
    if pool.gpu.sharing:
        return "its GPUs are shared, but ranks need whole ones"
    if pool.maximum < PODS_TO_COMPARE:
        return f"its maximum is {pool.maximum}, but measuring a network takes two nodes"
    return ""


def _left_out(site: Site) -> list[str]:
    """Return which networks nobody asked for, and what would have them measured."""
    reasons: list[str] = []
    if site.settings.pod_security != "privileged":
        reasons.append(f"host network: pod_security is {site.settings.pod_security}, but it needs privileged")
    if not any(pool.rdma for pool in site.pools):
        reasons.append("RDMA: no GPU pool has rdma: true")
    return reasons
