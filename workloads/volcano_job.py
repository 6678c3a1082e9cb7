"""Volcano Jobs from roles: the only place where jobs of all kinds are rendered as manifests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from infra.errors import RefusalError, choices
from infra.job_cleanup import TTL_LABEL
from infra.job_pods import REQUIREMENTS
from infra.metrics_access import METRICS_PORT_NAME
from infra.pod_network_modes import pod_labels, port
from infra.workload_labels import JOB_LABEL, KIND_LABEL, OWNER_LABEL
from workloads.any_image import (
    ACCOUNTS,
    HOME,
    IMPORT_PACKAGES,
    MODULES,
    PACKAGES,
    PACKAGES_FOLDER,
    RUN,
    account_annotations,
    cache_variables,
    in_named_directory,
    in_writable_directory,
)
from workloads.git_source import CODE_PATH, GitSource, code_mount, source_role, take_container
from workloads.job_secrets import own_secret_name, secret_mounts
from workloads.liveness import is_platform_program
from workloads.local_folder import unpack_container
from workloads.placement import capabilities, devices, gpu_access, network_environment, placed
from workloads.pods import INDEX_VARIABLE, JOB_VARIABLE, LOG_ENVIRONMENT, Container, claim_mounts, pod_spec
from workloads.restarts import (
    LOSSES,
    PLATFORM_PROGRAM_RESTARTS,
    RESTART_ALONE,
    RESTART_TOGETHER,
    alone,
    once,
    restarts_variable,
    run_alone,
    run_together,
    together,
)
from workloads.roles import Step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest
    from infra.pod_network_modes import PodNetwork
    from workloads.job_args import JobArgs
    from workloads.pods import Mount
    from workloads.resolved import ResolvedJob
    from workloads.roles import Role

RANK_METRICS_PORT = 8002
"""Port of the metrics of a pod's first rank."""
METRICS_PORT_VARIABLE = "ATHANOR_METRICS_PORT"
"""Variable with the port of a pod's first rank, for its program; the others take those that follow."""
POD_INDEX = f"$({INDEX_VARIABLE})"
"""Stands for the pod's index within its role in a command: Kubernetes replaces it."""

# Sent along as text: a job's own image has Python and pip, and nothing of ours.
_INSTALL_REQUIREMENTS = (Path(__file__).parent / "install_requirements.py").read_text(encoding="utf-8")
_ENDS_THE_JOB: Manifest = {"event": "TaskCompleted", "action": "CompleteJob"}


@dataclass(frozen=True, kw_only=True)
class JobShape:
    """The parts of a kind of job."""

    kind: str
    """Its name in metrics, such as pytorch."""
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


@dataclass(frozen=True, kw_only=True)
class Restarts:
    """The limit of a job's restarts, and what counts towards it."""

    failures: int
    """Failures of its program, after which it starts again."""
    pods: int
    """Pods of the job."""
    are_counted_by_volcano: bool
    """Whether Volcano decides, by the number of all causes together: for elastic jobs, which repeat a failed program
    themselves, and images that may have no shell to count in."""
    starts_once: bool
    """Whether nothing starts it again, a lost pod neither: it has limited time, and no failures that it may repeat."""
    grace_period_seconds: int

    @classmethod
    def of(cls, args: JobArgs, shape: JobShape) -> Restarts:
        """Return those of a job."""
        is_elastic = any(role.restart == "elastic" for role in shape.roles)
        keeps_going = is_elastic or any(
            is_platform_program(role.command) for role in shape.roles if not role.in_platform_image
        )
        default = PLATFORM_PROGRAM_RESTARTS if keeps_going else 0
        failures = default if args.max_restarts is None else args.max_restarts
        without_shell = args.working_directory is not None and failures > 0
        return cls(
            failures=failures,
            pods=sum(role.replicas for role in shape.roles),
            are_counted_by_volcano=is_elastic or without_shell,
            starts_once=args.deadline_seconds is not None and not failures and not is_elastic,
            grace_period_seconds=args.grace_period_seconds,
        )

    @property
    def starts(self) -> int:
        """At as many restarts the job ends (Volcano, pkg/controllers/job/state/restarting.go)."""
        return self.failures + 1 + (0 if self.are_counted_by_volcano or self.starts_once else LOSSES)

    def policies(self, role: Role) -> list[Manifest]:
        """Return Volcano's policies of a role. The job has none: they would apply to pods that restart alone."""
        end = [_ENDS_THE_JOB] if role.ends_the_job else []
        if self.starts_once:
            return [*once(role.restart, pods=self.pods, others_need_it=role.needed), *end]
        if role.restart == "together":
            own = role.in_platform_image or self.are_counted_by_volcano
            return [*(RESTART_TOGETHER if own else together(pods=self.pods)), *end]
        by_volcano = self.are_counted_by_volcano and self.failures > 0
        return [*(RESTART_ALONE if by_volcano else alone(others_need_it=role.needed)), *end]

    def run(self, role: Role) -> str:
        """Return the shell's text that runs the program of a role, which is its arguments."""
        if self.are_counted_by_volcano:
            return RUN
        if role.restart == "alone":
            return run_alone(self.failures, self.grace_period_seconds)
        return run_together(self.failures, self.grace_period_seconds, pods=self.pods)

    @property
    def variables(self) -> list[Manifest]:
        """Variables that the shell needs to count restarts."""
        return [restarts_variable()] if self.failures and not self.are_counted_by_volcano else []


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
    restarts = Restarts.of(args, shape)
    tasks = [_task(label, name, args, role, resolved, restarts) for role in shape.roles]
    for task in tasks:
        task["template"]["metadata"]["labels"][KIND_LABEL] = shape.kind
    svc = ["--publish-not-ready-addresses=true", "--disable-network-policy=true"]
    plugins = {"env": [], "svc": svc, **{plugin: list(words) for plugin, words in shape.plugins.items()}}
    spec: Manifest = {
        "schedulerName": "volcano",
        "queue": resolved.queue,
        "minAvailable": sum(role.gang for role in shape.roles),
        "maxRetry": restarts.starts,
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


def _task(  # noqa: PLR0913, PLR0917 - what a task is made of
    label: str, name: str, args: JobArgs, role: Role, resolved: ResolvedJob, restarts: Restarts
) -> Manifest:
    placement, offers = role.placement(job_labels(label, resolved.owner)), resolved.platform.offers
    own = [] if role.in_platform_image else _own_mounts(args, role)
    mounts = [ACCOUNTS, *role.mounts, *claim_mounts(role.pod.volumes, resolved.claims), *own]
    of_platform = [each["name"] for each in role.env_from_cluster]
    container = Container(
        name=role.name,
        image=resolved.platform.trainer_image if role.in_platform_image else resolved.image,
        command=role.command,
        expanded=of_platform if role.in_platform_image else (JOB_VARIABLE, INDEX_VARIABLE),
        start=() if role.in_platform_image else _start(args, restarts.run(role)),
        resources=role.pod.resources,
        env={
            **_environment(name, role),
            **cache_variables(None if role.in_platform_image else args.cache),
            **network_environment(placement, offers),
            **role.env,
            **role.pod.env,
        },
        env_from_cluster=[*role.env_from_cluster, *([] if role.in_platform_image else restarts.variables)],
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
        "policies": restarts.policies(role),
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


def _start(args: JobArgs, run: str = RUN) -> Sequence[str]:
    """Return the words that start a program; one in a directory that the user names may have an image without a shell.

    Args:
        args: The job's.
        run: The shell's text that runs its arguments.
    """
    if args.working_directory:
        return ()
    # The code is the platform's user's: another one finds it in a directory that it cannot write to.
    run = IMPORT_PACKAGES + run if args.requirements else run
    return in_named_directory(run) if args.source and args.run_as_user is None else in_writable_directory(run)


def _own_mounts(args: JobArgs, role: Role) -> list[Mount]:
    """Return the additional mounts of containers with the job's own image."""
    return [MODULES, *secret_mounts(role.pod.secret_files), *([code_mount()] if args.source else [])]


def _secrets(label: str, args: JobArgs, role: Role, resolved: ResolvedJob) -> list[str]:
    """Return the names of the Secrets whose keys are variables; the last one wins."""
    own = [own_secret_name(label, resolved.owner)] if args.secret_env else []
    return [*role.pod.secrets, *own]


def _init_containers(label: str, name: str, args: JobArgs, role: Role, resolved: ResolvedJob) -> list[Container]:
    code = [] if role.in_platform_image else _code_containers(label, name, args, resolved)
    steps = [*_requirements(args, role), *role.steps]
    return [*code, *(_step_container(label, name, step, args, role, resolved) for step in steps)]


def _requirements(args: JobArgs, role: Role) -> list[Step]:
    """Return the step that installs a job's packages, or waits for the pod that does."""
    if args.requirements is None or role.in_platform_image or role.name == "launcher":
        return []  # a launcher starts ranks in other pods
    words = [args.requirements, PACKAGES_FOLDER, PACKAGES]
    return [Step(name=REQUIREMENTS, command=["python3", "-c", _INSTALL_REQUIREMENTS, *words], writes_output=True)]


def _variables_of_installing(name: str, args: JobArgs, resolved: ResolvedJob) -> dict[str, str]:
    """Return the variables of the step that installs packages, in addition to the job's own, which win."""
    index = resolved.platform.offers.package_index
    # A variable of a container wins over those of Secrets, so it is left out where the job has an index of its own.
    if index is None or "PIP_INDEX_URL" in args.secret_env:
        return {"ATHANOR_JOB": name}
    # pip refuses an index without TLS unless its host is named.
    url = urlsplit(index.url)
    trusted = {"PIP_TRUSTED_HOST": url.netloc} if url.scheme == "http" else {}
    return {"ATHANOR_JOB": name, "PIP_INDEX_URL": index.url, **trusted}


def _code_containers(label: str, name: str, args: JobArgs, resolved: ResolvedJob) -> list[Container]:
    image = resolved.platform.trainer_image
    if args.source is None:
        return []
    if isinstance(args.source, GitSource):
        return [take_container(args.source, image, name)]
    return [unpack_container(args.source, image, label, resolved.owner)]


def _step_container(  # noqa: PLR0913, PLR0917 - what a step is made of
    label: str, name: str, step: Step, args: JobArgs, role: Role, resolved: ResolvedJob
) -> Container:
    cache = None if step.in_platform_image else args.cache
    return Container(
        name=step.name,
        image=resolved.platform.trainer_image if step.in_platform_image else resolved.image,
        command=step.command,
        start=() if step.in_platform_image else _start(args),
        env={
            "HOME": HOME,
            **(_variables_of_installing(name, args, resolved) if step.name == REQUIREMENTS else {}),
            **cache_variables(cache),
            **({} if step.in_platform_image else role.pod.env),
        },
        secrets=() if step.in_platform_image else _secrets(label, args, role, resolved),
        resources=role.pod.resources,
        user=None if step.in_platform_image else args.run_as_user,
        read_only_root=step.in_platform_image or args.read_only_root,
        writes_data=step.writes_data,
        writes_output=step.writes_output or cache is not None,
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
