"""All steps of a run, in their order.

Alibaba Cloud recommends this rehearsal: release an instance and see whether the application recovers (ECS, "Create a
preemptible instance", usage notes). It leaves out the notice, five minutes before, in the instance's metadata and as an
event of ACK.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from athanor.inspection.objects import node_of, phase_of
from infra.monitoring import NAMESPACE, PROMETHEUS, PROMETHEUS_PORT
from tools.acceptance import inventory
from tools.acceptance.findings import SkippedError, StepFailedError
from tools.acceptance.questions import items, optional
from tools.acceptance.runner import Step
from tools.acceptance.steps.cluster import cluster
from tools.acceptance.steps.gpus import SIMULATED, gpu_job, hardware_check, scale_in, scale_out, simulated, whole
from tools.acceptance.steps.leftovers import leftovers
from tools.acceptance.steps.nodes import gpu_nodes, nodes
from tools.acceptance.steps.sharing import sharing
from tools.acceptance.steps.this_machine import this_machine
from tools.acceptance.workload_requests import PODS_TO_COMPARE, measurements, probe
from tools.process import CommandError
from tools.recovery.recover import recover
from tools.recovery.state import pending
from tools.stacks.stock import stock_queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.settings.node_pools import NodePoolSettings
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site
    from tools.acceptance.workload_requests import Measurement
    from tools.operations.dashboards.answers import PanelAnswer
    from tools.stacks.stock import StockQuery

STACK_CREATED = "stack_made"
"""Note: the run created the stack, so it removes it in the end."""


def up(site: Site, findings: Findings) -> None:
    """Create the environment.

    Raises:
        CommandError: the engine failed.
    """
    if not site.engine.exists():
        site.journal.notes[STACK_CREATED] = True
    site.journal.begin_environment()
    if site.engine.exists():
        _settle(site)
    try:
        site.engine.prepare()
        site.engine.up()
    finally:
        inventory.remember(site)
    state = site.engine.export()["deployment"]
    findings.figure("resources", len(state.get("resources", [])))
    for name, value in sorted(site.outputs.items()):
        if name != "offers":
            findings.figure(f"output {name}", value)


def drift(site: Site, findings: Findings) -> None:
    """Show that the cloud has what the state says, and that nothing is left to change.

    Raises:
        StepFailedError: something would change.
    """
    words = ("preview", "--refresh", "--diff", "--expect-no-changes", "--stack", site.stack)
    try:
        findings.saw(f"pulumi {' '.join(words)}", site.engine.run(*words))
    except CommandError as error:
        findings.saw(f"pulumi {' '.join(words)}", error.output)
        findings.compare("a second `up` right after the first", "no changes", "changes: see the step `drift`")
        raise StepFailedError("the engine sees changes right after `up`") from error


def destroy(site: Site, findings: Findings) -> None:
    """Destroy everything.

    Raises:
        SkippedError: nothing was created.
        CommandError: the engine failed; the report says how to continue.
    """
    if not site.journal.environment_begun:
        raise SkippedError("nothing was created")
    site.journal.leave()
    if not site.engine.exists():
        raise SkippedError("the backend has no such stack any more")
    _settle(site)
    inventory.remember(site)
    _remove_jobs(site, findings)
    site.engine.destroy()
    left = site.engine.export()["deployment"].get("resources", [])
    findings.figure("resources left in the state", len(left))
    if left:
        raise StepFailedError(f"the state still has {', '.join(one['urn'] for one in left)}")
    if site.journal.notes.get(STACK_CREATED):
        site.engine.forget()


def _settle(site: Site) -> None:
    """Find out what a killed engine created, before another one creates it again or forgets it."""
    site.engine.end_orphans()
    if pending(site.engine.export()):
        recover(site.stack, site.console, site.report)


def _remove_jobs(site: Site, findings: Findings) -> None:
    # They go with the cluster in any case; an API server that does not answer must not keep the machines.
    try:
        site.jobs.remove()
    except (CommandError, KeyError) as error:
        findings.saw("remove the run's own jobs", str(error))


def account(site: Site, findings: Findings) -> None:
    """Ask the account what an `up` depends on; what the policy does not allow is left out and reported.

    Raises:
        CloudError: nobody knows these credentials.
    """
    identity = site.cloud.rpc("sts", "GetCallerIdentity")
    findings.figure("identity", f"{identity['IdentityType']} {identity['Arn']}")
    findings.figure("region", site.alicloud.region)
    _versions(site, findings)
    for query in stock_queries(site.alicloud):
        title = f"stock of {query.instance_type} in {query.zone} ({query.pool.name})"
        findings.figure(title, _stock(site, findings, query))


def _versions(site: Site, findings: Findings) -> None:
    query = {"Region": site.alicloud.region, "ClusterType": "ManagedKubernetes"}
    offered = optional(
        findings,
        "cs DescribeKubernetesVersionMetadata",
        lambda: site.cloud.get("/api/v1/metadata/versions", "DescribeKubernetesVersionMetadata", **query),
    )
    if offered is None:
        return
    names = [one["version"] for one in offered]
    findings.figure("Kubernetes versions on offer", ", ".join(names))
    version = site.alicloud.kubernetes.new_version
    if not any(name.startswith(version) for name in names):
        findings.compare("the version in the settings is on offer", version, ", ".join(names))


def _stock(site: Site, findings: Findings, query: StockQuery) -> str:
    """Return the stock of a type in a zone, in ECS' words (ECS, DescribeAvailableResource: StatusCategory)."""
    answer = optional(
        findings,
        f"ecs DescribeAvailableResource {query.instance_type} {query.zone}",
        lambda: site.cloud.rpc("ecs", "DescribeAvailableResource", **query.parameters),
    )
    if answer is None:
        return "not answered"
    categories = [
        str(supported.get("StatusCategory") or supported.get("Status"))
        for supported in _supported(answer, query.zone)
        if supported.get("Value") == query.instance_type
    ]
    return ", ".join(categories) or "not listed"


def _supported(answer: Mapping[str, Any], zone: str) -> list[dict[str, Any]]:
    return [
        supported
        for one in items(answer, "AvailableZones.AvailableZone")
        if one.get("ZoneId") == zone
        for resource in items(one, "AvailableResources.AvailableResource")
        for supported in items(resource, "SupportedResources.SupportedResource")
    ]


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


_DASHBOARD_MINUTES = 30


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
        pages = draw(Prometheus(address), View(minutes=_DASHBOARD_MINUTES), time.time())
    findings.figure("pages", write(pages, site.folder / "dashboards"))
    for page in pages:
        findings.figure(page.board["title"], f"{page.with_data} of {len(page.answers)} panels with data")
    panels = [(page.board["title"], one) for page in pages for one in page.answers.values() if _about_gpus(one)]
    lines = [f"{'data' if one.has_data else 'nothing':8}{board} / {one.title}" for board, one in panels]
    findings.saw(f"panels about GPUs, the last {_DASHBOARD_MINUTES} minutes", "\n".join(lines))
    for board, one in panels:
        if not one.has_data:
            findings.compare(f"panel {one.title!r} of {board}", "data", "nothing")
    if not any(one.has_data for _, one in panels):
        raise StepFailedError("no panel about GPUs shows anything")


def _about_gpus(panel: PanelAnswer) -> bool:
    return any(word in answer.expr.lower() for answer in panel.answers for word in ("gpu", "dcgm"))


ON_THIS_MACHINE: Sequence[Step] = (Step(name="this-machine", title="GPUs of this machine", run=this_machine),)
"""Steps that need no account."""
ALL: Sequence[Step] = (
    *ON_THIS_MACHINE,
    Step(name="account", title="Account: identity, versions, stock", run=account),
    Step(name="up", title="Create the environment from scratch", run=up, needs=("account",)),
    Step(name="drift", title="Nothing left to change", run=drift, needs=("up",)),
    Step(name="cluster", title="API server, versions, add-ons", run=cluster, needs=("up",)),
    Step(name="nodes", title="Nodes of fixed pools", run=nodes, needs=("cluster",)),
    Step(name="scale-out", title="GPU pools grow for a job", run=scale_out, needs=("cluster",)),
    Step(name="gpu-nodes", title="GPU nodes and drivers", run=gpu_nodes, needs=("scale-out",)),
    Step(name="gpu-job", title="Jobs on GPUs", run=gpu_job, needs=("scale-out",)),
    Step(name="dashboards", title="GPU panels of the dashboards", run=dashboards, needs=("scale-out",)),
    Step(name="network", title="NCCL between nodes", run=networks, needs=("scale-out",)),
    Step(name="gpu-check", title="Hardware check of GPU nodes", run=hardware_check, needs=("scale-out",)),
    Step(name="sharing", title="Shared GPUs and MIG", run=sharing, needs=("cluster",)),
    Step(name="spot-loss", title="A spot node is lost", run=spot_loss, needs=("scale-out",)),
    Step(name="scale-in", title="Idle GPU nodes are removed", run=scale_in, needs=("scale-out",)),
    Step(name="destroy", title="Everything is destroyed", run=destroy, last=True),
    Step(name="leftovers", title="What still exists", run=leftovers, last=True),
)
"""Steps that an account can run."""
