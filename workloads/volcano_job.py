"""Volcano Jobs from roles: the one place where any kind of job becomes a manifest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infra.errors import RefusalError, choices
from infra.job_cleanup import TTL_LABEL
from infra.monitoring import METRICS_PORT_NAME
from infra.pod_network import pod_labels, port
from infra.pools import NO_OFFERS, PlatformOffers
from infra.rdma import pod_annotations
from infra.workload_labels import JOB_LABEL, KIND_LABEL
from workloads.git_source import CODE_PATH, code_mount, source_container
from workloads.placement import capabilities, devices, network_environment, placed
from workloads.pods import LOG_ENVIRONMENT, Claims, Container, claim_mounts, pod_spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest
    from infra.pod_network import PodNetwork
    from workloads.job_args import JobArgs
    from workloads.roles import Role, Step

METRICS_PORT = 8002
"""Port of a pod's first rank."""
METRICS_PORT_VARIABLE = "ATHANOR_METRICS_PORT"
"""Tells a pod's program the port of its first rank; the others take those behind it."""
POD_INDEX = "$(VC_TASK_INDEX)"
"""Stands for the pod's index within its role in a command: Kubernetes replaces it, Volcano's env plugin sets it."""

RESTART_TOGETHER: tuple[Manifest, ...] = (
    {"event": "PodEvicted", "action": "RestartJob"},
    {"event": "PodFailed", "action": "RestartJob"},
)
"""Ranks wait for each other in every step: one lost pod stops all, so all start again from the checkpoint."""
RESTART_ALONE: tuple[Manifest, ...] = (
    {"event": "PodEvicted", "action": "RestartPod"},
    {"event": "PodFailed", "action": "RestartPod"},
)
"""For pods that the others can go on without."""
ENDS_THE_JOB: Manifest = {"event": "TaskCompleted", "action": "CompleteJob"}
"""For a role whose success is the job's: the pods of other roles, which wait for work, are ended."""


@dataclass(frozen=True, kw_only=True)
class ResolvedJob:
    """The platform's part of a job, with every Output known."""

    namespace: str
    queue: str
    image: str
    platform_image: str
    """The platform's trainer image, for steps that the job's own image may not be able to do."""
    claims: Claims
    offers: PlatformOffers = NO_OFFERS


@dataclass(frozen=True, kw_only=True)
class JobShape:
    """What a kind of job is made of."""

    kind: str
    """What metrics call it, such as pytorch."""
    roles: Sequence[Role]
    plugins: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    """Volcano's plugins and their arguments, beside env and svc."""
    policies: Sequence[Manifest] = RESTART_TOGETHER
    successes: int | None = None
    """Pods that must succeed, where the gang is smaller than that. Default: the gang."""

    @property
    def metrics_ports(self) -> list[int]:
        """Ports of the pods that Prometheus reads."""
        found = [port for role in self.roles for name, port in role.ports.items() if name.startswith(METRICS_PORT_NAME)]
        return sorted(set(found))


def metrics_ports(network: PodNetwork, ranks: int) -> dict[str, int]:
    """Return the ports of a pod's ranks by the names that Prometheus finds them by: metrics, metrics-1 and so on."""
    names = [METRICS_PORT_NAME, *(f"{METRICS_PORT_NAME}-{rank}" for rank in range(1, ranks))]
    return {name: port(network, METRICS_PORT + rank) for rank, name in enumerate(names)}


def pod_name(job_name: str, role: str, index: int | str) -> str:
    """Return the name that Volcano gives a pod, which is its host name too."""
    return f"{job_name}-{role}-{index}"


def host(job_name: str, role: str, index: int | str) -> str:
    """Return the DNS name of a pod, by the job's headless Service."""
    return f"{pod_name(job_name, role, index)}.{job_name}"


def job_labels(label: str) -> dict[str, str]:
    """Return the labels that all pods of a job carry."""
    return {JOB_LABEL: label}


def job_manifest(label: str, name: str, args: JobArgs, shape: JobShape, resolved: ResolvedJob) -> Manifest:
    """Return the Volcano Job `name`; its pods carry `label` as the value of athanor.dev/job."""
    tasks = [_task(label, name, args, role, resolved) for role in shape.roles]
    for task in tasks:
        task["template"]["metadata"]["labels"][KIND_LABEL] = shape.kind
    svc = ["--publish-not-ready-addresses=true", "--disable-network-policy=true"]
    plugins = {"env": [], "svc": svc, **{plugin: list(words) for plugin, words in shape.plugins.items()}}
    spec: Manifest = {
        "schedulerName": "volcano",
        "queue": resolved.queue,
        "minAvailable": sum(role.gang for role in shape.roles),
        "maxRetry": args.max_restarts,
        "plugins": plugins,
        "policies": list(shape.policies),
        "tasks": tasks,
    }
    if args.priority_class:
        spec["priorityClassName"] = priority_class(args.priority_class, resolved)
    if shape.successes is not None:
        spec["minSuccess"] = shape.successes
    if args.together:
        spec["networkTopology"] = args.together.manifest()
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": resolved.namespace,
            "labels": {**args.labels, **job_labels(label), **_ttl_labels(args)},
        },
        "spec": spec,
    }


def priority_class(asked: str, resolved: ResolvedJob) -> str:
    """Return the name of a PriorityClass in the cluster: the platform's own carry its namespace in theirs.

    Raises:
        RefusalError: the platform's classes are known, and none has that name.
    """
    known = resolved.offers.priority_classes
    names = {name.removeprefix(f"{resolved.namespace}."): name for name in known}
    if not known or asked in known:
        return asked
    if asked not in names:
        limit = "the platform has no PriorityClass of that name"
        raise RefusalError("priority_class", asked, limit, choices(asked, names))
    return names[asked]


def content_digest(manifest: Manifest, rerun: int) -> str:
    """Return 8 hex digits of the SHA-256 of what a job does: its spec, and which repetition of it this is."""
    content = [manifest["spec"], *([rerun] if rerun else [])]
    text = json.dumps(content if rerun else manifest["spec"], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _ttl_labels(args: JobArgs) -> dict[str, str]:
    ttl = args.ttl_seconds_after_finished
    return {} if ttl is None else {TTL_LABEL: str(ttl)}


def _task(label: str, name: str, args: JobArgs, role: Role, resolved: ResolvedJob) -> Manifest:
    placement = role.placement(job_labels(label))
    own_code = args.source is not None and not role.in_platform_image
    mounts = [*role.mounts, *claim_mounts(role.pod.volumes), *([code_mount()] if own_code else [])]
    container = Container(
        name=role.name,
        image=resolved.platform_image if role.in_platform_image else resolved.image,
        command=role.command,
        resources=role.pod.resources,
        env={**_environment(name, role), **network_environment(placement, resolved.offers), **role.env, **role.pod.env},
        ports=role.ports,
        writes_data=role.writes_data,
        devices=devices(placement, resolved.offers),
        capabilities=capabilities(placement, resolved.offers),
        mounts=mounts,
        extra=_working_directory(args) if own_code else {},
    )
    spec = pod_spec(
        container,
        resolved.claims,
        init_containers=_init_containers(name, args, role, resolved),
        grace_period_seconds=args.grace_period_seconds,
    )
    deadline = {"activeDeadlineSeconds": args.deadline_seconds} if args.deadline_seconds else {}
    task: Manifest = {
        "name": role.name,
        "replicas": role.replicas,
        "template": {
            "metadata": _pod_metadata(label, role),
            "spec": {**placed(spec, placement, resolved.offers), **deadline, "restartPolicy": "Never"},
        },
    }
    if role.minimum is not None:
        task["minAvailable"] = role.minimum
    if role.policies:
        task["policies"] = list(role.policies)
    return task


def _environment(name: str, role: Role) -> dict[str, str]:
    number = role.ports.get(METRICS_PORT_NAME)
    return {
        "ATHANOR_JOB": name,
        **({} if number is None else {METRICS_PORT_VARIABLE: str(number)}),
        **LOG_ENVIRONMENT,
        # Without a CPU limit each process would start a thread per core of the node: two pods with two threads each on
        # two cores trained twelve times slower.
        "OMP_NUM_THREADS": str(max(1, role.pod.resources.whole_cpus // role.processes)),
        "PYTHONUNBUFFERED": "1",
    }


def _working_directory(args: JobArgs) -> dict[str, str]:
    return {"workingDir": CODE_PATH} if args.source else {}


def _init_containers(name: str, args: JobArgs, role: Role, resolved: ResolvedJob) -> list[Container]:
    source: list[Container] = []
    if args.source and not role.in_platform_image:
        source.append(source_container(args.source, resolved.platform_image, name))
    return [*source, *(_step_container(step, args, role, resolved) for step in role.steps)]


def _step_container(step: Step, args: JobArgs, role: Role, resolved: ResolvedJob) -> Container:
    return Container(
        name=step.name,
        image=resolved.platform_image if step.in_platform_image else resolved.image,
        command=step.command,
        resources=role.pod.resources,
        writes_data=step.writes_data,
        writes_output=False,
        mounts=[*role.mounts, *([] if step.in_platform_image or not args.source else [code_mount()])],
        extra={} if step.in_platform_image else _working_directory(args),
    )


def _pod_metadata(label: str, role: Role) -> Manifest:
    labels = {
        **role.labels(job_labels(label)),
        "app.kubernetes.io/component": "training",
        **pod_labels(role.pod.network),
    }
    annotations = {**role.annotations, **pod_annotations(role.pod.rdma)}
    return {"labels": labels, **({"annotations": annotations} if annotations else {})}
