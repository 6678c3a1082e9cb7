"""Volcano Jobs from roles: the one place where any kind of job becomes a manifest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from infra.errors import RefusalError, choices
from infra.job_cleanup import TTL_LABEL
from infra.metrics_access import METRICS_PORT_NAME
from infra.pod_network_modes import pod_labels, port
from infra.workload_labels import JOB_LABEL, KIND_LABEL, OWNER_LABEL
from workloads.any_image import (
    ACCOUNTS,
    HOME,
    IN_NAMED_DIRECTORY,
    IN_WRITABLE_DIRECTORY,
    MODULES,
    account_annotations,
    cache_variables,
)
from workloads.git_source import CODE_PATH, GitSource, code_mount, source_role, take_container
from workloads.job_secrets import own_secret_name, secret_mounts
from workloads.local_folder import unpack_container
from workloads.placement import capabilities, devices, gpu_access, network_environment, placed
from workloads.pods import INDEX_VARIABLE, JOB_VARIABLE, LOG_ENVIRONMENT, Container, claim_mounts, pod_spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest
    from infra.pod_network_modes import PodNetwork
    from workloads.job_args import JobArgs
    from workloads.pods import Mount
    from workloads.resolved import ResolvedJob
    from workloads.roles import Role, Step

RANK_METRICS_PORT = 8002
"""Port of the metrics of a pod's first rank."""
METRICS_PORT_VARIABLE = "ATHANOR_METRICS_PORT"
"""Variable with the port of a pod's first rank, for its program; the others take those that follow."""
POD_INDEX = f"$({INDEX_VARIABLE})"
"""Stands for the pod's index within its role in a command: Kubernetes replaces it."""

ENDS_THE_JOB: Manifest = {"event": "TaskCompleted", "action": "CompleteJob"}
"""For a role whose success is the job's: the pods of other roles, which wait for work, are ended."""


@dataclass(frozen=True, kw_only=True)
class JobShape:
    """What a kind of job is made of."""

    kind: str
    """What metrics call it, such as pytorch."""
    roles: Sequence[Role]
    plugins: Mapping[str, Sequence[str]] = field(default_factory=dict[str, "Sequence[str]"])
    """Volcano's plugins and their arguments, in addition to env and svc."""
    successes: int | None = None
    """Pods that must succeed, where the gang is smaller than that. Default: the gang."""

    @property
    def metrics_ports(self) -> list[int]:
        """Ports of the pods that Prometheus reads."""
        ports = [port for role in self.roles for name, port in role.ports.items() if name.startswith(METRICS_PORT_NAME)]
        return sorted(set(ports))


def with_source(shape: JobShape, args: JobArgs, job_name: str) -> JobShape:
    """Return a job's shape with the pod that fetches its code, if it comes from git."""
    if not isinstance(args.source, GitSource):
        return shape
    roles = [*shape.roles, source_role(args.source, args, job_name)]
    # That pod succeeds, too, and none of the others' successes may be missing for it.
    successes = None if shape.successes is None else shape.successes + 1
    return replace(shape, roles=roles, successes=successes)


def metrics_ports(network: PodNetwork, ranks: int) -> dict[str, int]:
    """Return the ports of a pod's ranks by the names that Prometheus finds them by: metrics, metrics-1 and so on."""
    names = [METRICS_PORT_NAME, *(f"{METRICS_PORT_NAME}-{rank}" for rank in range(1, ranks))]
    return {name: port(network, RANK_METRICS_PORT + rank) for rank, name in enumerate(names)}


def pod_name(job_name: str, role: str, index: int | str) -> str:
    """Return the name that Volcano gives a pod, which is its host name too."""
    return f"{job_name}-{role}-{index}"


def host(job_name: str, role: str, index: int | str) -> str:
    """Return the DNS name of a pod, by the job's headless Service."""
    return f"{pod_name(job_name, role, index)}.{job_name}"


def job_labels(label: str, owner: str) -> dict[str, str]:
    """Return the labels that all pods of a job carry, and no pod of another: two stacks may call their jobs alike."""
    return {JOB_LABEL: label, OWNER_LABEL: owner}


def job_manifest(label: str, name: str, args: JobArgs, shape: JobShape, resolved: ResolvedJob) -> Manifest:
    """Return the Volcano Job `name`; its pods carry `label` as the value of athanor.dev/job."""
    shape = with_source(shape, args, name)
    tasks = [_task(label, name, args, role, resolved) for role in shape.roles]
    for task in tasks:
        task["template"]["metadata"]["labels"][KIND_LABEL] = shape.kind
    svc = ["--publish-not-ready-addresses=true", "--disable-network-policy=true"]
    plugins = {"env": [], "svc": svc, **{plugin: list(words) for plugin, words in shape.plugins.items()}}
    spec: Manifest = {
        "schedulerName": "volcano",
        "queue": resolved.queue,
        "minAvailable": sum(role.gang for role in shape.roles),
        # Counts starts: at as many failures the job ends (Volcano, pkg/controllers/job/state/restarting.go).
        "maxRetry": args.max_restarts + 1,
        "plugins": plugins,
        "tasks": tasks,
    }
    if args.priority_class:
        spec["priorityClassName"] = priority_class(
            args.priority_class, resolved.platform.namespace, resolved.platform.offers.priority_classes
        )
    if shape.successes is not None:
        spec["minSuccess"] = shape.successes
    if args.together:
        spec["networkTopology"] = args.together.manifest()
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": resolved.platform.namespace,
            "labels": {**args.labels, **job_labels(label, resolved.owner), **_ttl_labels(args)},
        },
        "spec": spec,
    }


def priority_class(asked: str, namespace: str, known: Sequence[str]) -> str:
    """Return the name of a PriorityClass in the cluster: the platform's own carry its namespace in theirs.

    Args:
        asked: Its name, with or without the namespace.
        namespace: The platform's.
        known: The names of the platform's own in the cluster; empty: not known.

    Raises:
        RefusalError: the platform's classes are known, and none has that name.
    """
    names = {name.removeprefix(f"{namespace}."): name for name in known}
    if not known or asked in known:
        return asked
    if asked not in names:
        limit = "the platform has no PriorityClass of that name"
        raise RefusalError("priority_class", asked, limit, choices(asked, names))
    return names[asked]


def _ttl_labels(args: JobArgs) -> dict[str, str]:
    ttl = args.ttl_seconds_after_finished
    return {} if ttl is None else {TTL_LABEL: str(ttl)}


def _task(label: str, name: str, args: JobArgs, role: Role, resolved: ResolvedJob) -> Manifest:
    placement, offers = role.placement(job_labels(label, resolved.owner)), resolved.platform.offers
    own = [] if role.in_platform_image else _own_mounts(args, role)
    mounts = [ACCOUNTS, *role.mounts, *claim_mounts(role.pod.volumes, resolved.claims), *own]
    of_platform = [each["name"] for each in role.env_from_cluster]
    container = Container(
        name=role.name,
        image=resolved.platform.trainer_image if role.in_platform_image else resolved.image,
        command=role.command,
        expanded=of_platform if role.in_platform_image else (JOB_VARIABLE, INDEX_VARIABLE),
        start=() if role.in_platform_image else _start(args),
        resources=role.pod.resources,
        env={
            **_environment(name, role),
            **cache_variables(None if role.in_platform_image else args.cache),
            **network_environment(placement, offers),
            **role.env,
            **role.pod.env,
        },
        env_from_cluster=role.env_from_cluster,
        secrets=() if role.in_platform_image else _secrets(label, args, role, resolved),
        ports=role.ports,
        writes_data=role.writes_data,
        user=None if role.in_platform_image else args.run_as_user,
        read_only_root=role.in_platform_image or args.read_only_root,
        devices=devices(placement, offers),
        capabilities=capabilities(placement, offers),
        mounts=mounts,
        extra={**({} if role.in_platform_image else _working_directory(args)), **role.probes},
    )
    spec = pod_spec(
        container,
        resolved.claims,
        init_containers=_init_containers(label, name, args, role, resolved),
        grace_period_seconds=args.grace_period_seconds,
        gpus=gpu_access(placement, offers),
    )
    deadline = {"activeDeadlineSeconds": args.deadline_seconds} if args.deadline_seconds else {}
    task: Manifest = {
        "name": role.name,
        "replicas": role.replicas,
        "policies": list(role.policies),
        "template": {
            "metadata": _pod_metadata(job_labels(label, resolved.owner), args, role),
            "spec": {**placed(spec, placement, offers), **deadline, "restartPolicy": "Never"},
        },
    }
    if role.minimum is not None:
        task["minAvailable"] = role.minimum
    return task


def _environment(name: str, role: Role) -> dict[str, str]:
    number = role.ports.get(METRICS_PORT_NAME)
    return {
        "HOME": HOME,
        JOB_VARIABLE: name,
        **({} if number is None else {METRICS_PORT_VARIABLE: str(number)}),
        **LOG_ENVIRONMENT,
        # Without a CPU limit each process would start a thread per core of the node: two pods with two threads each on
        # two cores trained twelve times slower.
        "OMP_NUM_THREADS": str(max(1, role.pod.resources.whole_cpus // role.processes)),
        "PYTHONUNBUFFERED": "1",
    }


def _working_directory(args: JobArgs) -> dict[str, str]:
    named = args.working_directory or (CODE_PATH if args.source else None)
    return {"workingDir": named} if named else {}


def _start(args: JobArgs) -> Sequence[str]:
    """Return what starts a program; one in a directory that the user names may have an image without a shell."""
    if args.working_directory:
        return ()
    # The code is the platform's user's: another one finds it in a directory that it cannot write to.
    return IN_NAMED_DIRECTORY if args.source and args.run_as_user is None else IN_WRITABLE_DIRECTORY


def _own_mounts(args: JobArgs, role: Role) -> list[Mount]:
    """Return what containers of the job's own image see in addition."""
    return [MODULES, *secret_mounts(role.pod.secret_files), *([code_mount()] if args.source else [])]


def _secrets(label: str, args: JobArgs, role: Role, resolved: ResolvedJob) -> list[str]:
    """Return the names of the Secrets whose keys are variables; the last one wins."""
    own = [own_secret_name(label, resolved.owner)] if args.secret_env else []
    return [*role.pod.secrets, *own]


def _init_containers(label: str, name: str, args: JobArgs, role: Role, resolved: ResolvedJob) -> list[Container]:
    code = [] if role.in_platform_image else _code_containers(label, name, args, resolved)
    return [*code, *(_step_container(label, step, args, role, resolved) for step in role.steps)]


def _code_containers(label: str, name: str, args: JobArgs, resolved: ResolvedJob) -> list[Container]:
    image = resolved.platform.trainer_image
    if args.source is None:
        return []
    if isinstance(args.source, GitSource):
        return [take_container(args.source, image, name)]
    return [unpack_container(args.source, image, label, resolved.owner)]


def _step_container(label: str, step: Step, args: JobArgs, role: Role, resolved: ResolvedJob) -> Container:
    cache = None if step.in_platform_image else args.cache
    return Container(
        name=step.name,
        image=resolved.platform.trainer_image if step.in_platform_image else resolved.image,
        command=step.command,
        start=() if step.in_platform_image else _start(args),
        env={"HOME": HOME, **cache_variables(cache), **({} if step.in_platform_image else role.pod.env)},
        secrets=() if step.in_platform_image else _secrets(label, args, role, resolved),
        resources=role.pod.resources,
        user=None if step.in_platform_image else args.run_as_user,
        read_only_root=step.in_platform_image or args.read_only_root,
        writes_data=step.writes_data,
        writes_output=cache is not None,
        mounts=[ACCOUNTS, *role.mounts, *([] if step.in_platform_image else _own_mounts(args, role))],
        extra={} if step.in_platform_image else _working_directory(args),
    )


def _pod_metadata(own_labels: Mapping[str, str], args: JobArgs, role: Role) -> Manifest:
    labels = {
        **role.labels(own_labels),
        "app.kubernetes.io/component": "training",
        **pod_labels(role.pod.network),
    }
    annotations = {**account_annotations(args.run_as_user), **role.annotations}
    return {"labels": labels, "annotations": annotations}
