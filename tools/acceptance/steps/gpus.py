"""The GPU steps: pools grow for a job, its pods report their GPUs, the example trains, and the pools shrink again."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from tools.acceptance.findings import SkippedError, StepFailedError
from tools.acceptance.site import is_ready, is_simulated
from tools.acceptance.steps.this_machine import MINUTES, judge
from tools.acceptance.workload_requests import check, probe
from trainer.helpers import hardware

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from athanor.inspection.objects import Object
    from infra.settings.node_pools import NodePoolSettings
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site
    from tools.acceptance.workload_requests import Probe

SIMULATED = "its nodes are simulated by the API double, so nothing runs there"
BUSY_SECONDS = 180
"""Long enough for several scrapes of the GPU exporter."""


def scale_out(site: Site, findings: Findings) -> None:
    """Start a job on each GPU pool and wait for its nodes.

    Raises:
        SkippedError: the run uses no GPU pool.
        StepFailedError: nodes did not come.
    """
    pools = whole(site.pools)
    if not pools:
        raise SkippedError("the run uses no pool of whole GPUs")
    before = {pool.name: len(site.nodes(pool.name)) for pool in pools}
    probes = probes_of(site)
    began = time.monotonic()
    jobs = site.jobs.declare(list(probes.values()))
    for pool in pools:
        count = probes[pool.name].pods
        nodes = site.wait(
            lambda pool=pool, count=count: _enough(site, pool, count),
            f"{count} Ready nodes of pool {pool.name}",
            site.patience.node,
        )
        seconds = round(time.monotonic() - began)
        findings.figure(f"pool {pool.name}", f"{before[pool.name]} to {len(nodes)} Ready nodes, {seconds} s")
    for name, job in jobs.items():
        findings.figure(f"job {name}", job)
    findings.saw("kubectl get nodes -o wide", site.kubectl.run("get", "nodes", "-o", "wide"))


def _enough(site: Site, pool: NodePoolSettings, count: int) -> list[Object] | None:
    nodes = [node for node in site.nodes(pool.name) if is_ready(node)]
    return nodes if len(nodes) >= count else None


def probes_of(site: Site) -> dict[str, Probe]:
    """Return the probe of each pool, by its name."""
    return {pool.name: probe(pool, BUSY_SECONDS) for pool in whole(site.pools)}


def whole(pools: Sequence[NodePoolSettings]) -> list[NodePoolSettings]:
    """Return the pools whose GPUs are not shared: on ACK no job can ask for a part of one."""
    return [pool for pool in pools if not pool.gpu.sharing]


def simulated(site: Site, pool: NodePoolSettings) -> bool:
    """Return whether a pool has nodes, and none of them is real."""
    nodes = site.nodes(pool.name)
    return bool(nodes) and all(is_simulated(node) for node in nodes)


def gpu_job(site: Site, findings: Findings) -> None:
    """Read what the pods of the jobs saw of their GPUs, and follow the stack's own training job.

    Raises:
        SkippedError: no pool has a real node.
        StepFailedError: a pod does not reach its GPUs, or a job failed.
    """
    real = _real(site, findings)
    jobs = site.jobs.declare(list(probes_of(site).values()))
    wrong: list[str] = []
    for pool in real:
        requested = probe(pool, BUSY_SECONDS)
        try:
            text = site.jobs.completed(jobs[requested.name], findings, site.patience.job)
        except StepFailedError as error:
            wrong.append(str(error))
            continue
        reports = reports_in(text)
        wrong += _checked(findings, pool, requested, reports)
    wrong += _training(site, findings)
    if wrong:
        raise StepFailedError("; ".join(wrong))


def hardware_check(site: Site, findings: Findings) -> None:
    """Measure a node of each GPU pool with `trainer.hardware_check`, one pool at a time.

    Raises:
        SkippedError: no pool has a real node.
        StepFailedError: a step of a check failed, or it did not come to its report.
    """
    wrong: list[str] = []
    for pool in _real(site, findings):
        requested = check(pool, MINUTES)
        job = site.jobs.declare([requested])[requested.name]
        try:
            said = site.jobs.completed(job, findings, site.patience.job)
        except StepFailedError:  # also where a step of the check failed, which its report says
            said = site.jobs.log(job)
        try:
            judge(findings, said, fix=f"see the log of job {job}", of=f"pool {pool.name}: ")
        except StepFailedError as error:
            wrong.append(f"pool {pool.name}: {error}")
    if wrong:
        raise StepFailedError("; ".join(wrong))


def _real(site: Site, findings: Findings) -> list[NodePoolSettings]:
    """Return the pools with real nodes, and note the others.

    Raises:
        SkippedError: there is none.
    """
    pools = whole(site.pools)
    real = [pool for pool in pools if not simulated(site, pool)]
    for pool in pools:
        if pool not in real:
            findings.figure(f"pool {pool.name}", f"skipped: {SIMULATED}")
    if not real:
        raise SkippedError("; ".join(f"pool {pool.name}: {SIMULATED}" for pool in pools))
    return real


def reports_in(log: str) -> list[dict[str, Any]]:
    """Return the reports of pods, from their logs with or without a prefix."""
    reports: list[dict[str, Any]] = []
    for line in log.splitlines():
        _, brace, rest = line.partition("{")
        try:
            content = json.loads(brace + rest)
        except ValueError:
            continue
        if hardware.KEY in content:
            reports.append(content[hardware.KEY])
    return reports


def torch_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a report about torch; without torch it has no GPUs."""
    return report["torch"] or {"gpus": [], "error": "the image has no torch"}


def _checked(
    findings: Findings, pool: NodePoolSettings, requested: Probe, reports: Sequence[dict[str, Any]]
) -> list[str]:
    """Return the faults in the reports of a pool's pods."""
    wrong = [] if len(reports) == requested.pods else [f"pool {pool.name}: {len(reports)} of {requested.pods} reports"]
    for report in reports:
        host, torch = report["host"], torch_of(report)
        for name in ("driver", "kernel", "nvidia_smi", "limits", "shared_memory_bytes", "rdma_devices", "interfaces"):
            findings.figure(f"{host} {name}", report[name])
        findings.figure(f"{host} torch", torch)
        seen = len(torch["gpus"])
        if seen != requested.gpus:
            wrong.append(f"{host}: torch sees {seen} of {requested.gpus} GPUs ({torch.get('error', 'no error')})")
        if pool.driver_version:
            findings.compare(f"driver of pool {pool.name}", pool.driver_version, report["driver"])
        if pool.rdma and not report["rdma_devices"]:
            findings.compare(f"RDMA devices on {host}", "at least one", "none without requesting RDMA")
    return wrong


def _training(site: Site, findings: Findings) -> list[str]:
    job = site.outputs.get("digits_training_job")
    pool = next((one for one in site.pools if one.name == site.settings.digits.pool), None)
    if not job or pool is None or simulated(site, pool):
        findings.figure("training", "skipped: the stack declares no training on a real GPU node")
        return []
    try:
        site.jobs.completed(str(job), findings, site.patience.job)
    except StepFailedError as error:
        return [str(error)]
    return []


def scale_in(site: Site, findings: Findings) -> None:
    """Take the jobs away and wait for idle nodes to go.

    Raises:
        SkippedError: nothing shrinks by itself here.
        StepFailedError: nodes stayed.
    """
    real = [pool for pool in site.pools if not simulated(site, pool) and pool.autoscaled]
    site.jobs.declare([])
    if not real:
        raise SkippedError(
            "no autoscaled pool has a real node; pools of the API double grow, but never shrink on their own"
        )
    for pool in real:
        began = time.monotonic()
        site.wait(
            lambda pool=pool: len(site.nodes(pool.name)) <= pool.minimum,
            f"pool {pool.name} at {pool.minimum} nodes",
            site.patience.shrink,
        )
        findings.figure(f"pool {pool.name}", f"{pool.minimum} nodes after {round(time.monotonic() - began)} s")
