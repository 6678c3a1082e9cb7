"""The spot step: a machine is released while a job runs on it, as in a reclaim.

Alibaba Cloud recommends this rehearsal: release an instance and see whether the application recovers (ECS, "Create a
preemptible instance", usage notes). It leaves out the notice, five minutes before, in the instance's metadata and as an
event of ACK.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from athanor.inspection.objects import node_of, phase_of
from tools.acceptance.findings import SkippedError
from tools.acceptance.steps.gpus import SIMULATED, simulated, whole
from tools.acceptance.workload_requests import probe

if TYPE_CHECKING:
    from infra.settings.node_pools import NodePoolSettings
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site

_LONG_ENOUGH_SECONDS = 3600
"""A job that still runs when its node is gone."""


def spot_loss(site: Site, findings: Findings) -> None:
    """Release the machine under a running job and wait until its pod runs again elsewhere.

    Raises:
        SkippedError: there is no spot pool with a real node.
        StepFailedError: the pod did not come back.
        CloudError: the policy lacks ecs:DeleteInstance.
    """
    pools = [pool for pool in whole(site.pools) if pool.spot]
    if not pools:
        raise SkippedError("no pool of whole GPUs has spot nodes")
    real = [pool for pool in pools if not simulated(site, pool)]
    if not real:
        raise SkippedError("; ".join(f"pool {pool.name}: {SIMULATED}" for pool in pools))
    pool = real[0]
    job = site.jobs.declare([probe(pool, _LONG_ENOUGH_SECONDS)])[f"probe-{pool.name}"]
    before = site.wait(lambda: _running_on(site, job), f"job {job} to run", site.patience.job)
    lost = min(before)
    machine = _machine(site, pool, lost)
    began = time.monotonic()
    site.cloud.rpc("ecs", "DeleteInstance", InstanceId=machine, Force="true")
    findings.figure("released", f"{machine}, node {lost}")
    site.wait(lambda: lost not in _running_on(site, job), "the loss to be noticed", site.patience.node)
    findings.figure("the pod was gone after", f"{time.monotonic() - began:.0f} s")
    site.wait(lambda: len(_running_on(site, job)) == len(before), "the job to run in full again", site.patience.job)
    findings.figure("all pods ran again after", f"{time.monotonic() - began:.0f} s")
    findings.saw(f"kubectl get pods of {job}", "\n".join(sorted(_running_on(site, job))))


def _running_on(site: Site, job: str) -> set[str]:
    """Return the nodes that pods of a job run on."""
    return {node_of(pod) for pod in site.jobs.pods(job) if phase_of(pod) == "Running"}


def _machine(site: Site, pool: NodePoolSettings, node: str) -> str:
    [match] = [one for one in site.nodes(pool.name) if one["metadata"]["name"] == node]
    return str(match["spec"]["providerID"]).rpartition(".")[2]
