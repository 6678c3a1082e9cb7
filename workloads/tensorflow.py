"""TensorFlow training: parameter servers and workers with a coordinating chief, or mirrored workers.

Format: TensorFlow, tf.distribute.cluster_resolver.TFConfigClusterResolver; Volcano's tensorflow plugin writes it into
the pods, from the names of the roles and its port.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.admitted import LARGEST_ROLE
from infra.descriptions import checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import MAXIMUM_WORD_BYTES, Word, variable_bytes
from infra.pod_network_modes import port
from workloads.checks import check_range
from workloads.gpu_use import check_parameter_server_gpus
from workloads.job import Job
from workloads.job_args import JobArgs
from workloads.launchers import check_tensorflow_program
from workloads.resources import Resources
from workloads.roles import PodArgs, Role, Step, helper_pod, prepare_steps
from workloads.volcano_job import JobShape, host, metrics_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pulumi

    from infra.platform import Platform
    from workloads.roles import Restart

TF_CONFIG = "TF_CONFIG"
"""Name of the variable."""
CLUSTER_ROLES = ("ps", "worker", "chief", "evaluator")
"""Roles that TensorFlow knows, in the order that the plugin writes them."""


def cluster_spec(job_name: str, replicas: Mapping[str, int], port: int) -> dict[str, list[str]]:
    """Return the address of every process by role.

    Args:
        job_name: Name of the job's object.
        replicas: Number of pods by role.
        port: Port that every process listens on.
    """
    return {
        role: [f"{host(job_name, role, index)}:{port}" for index in range(replicas[role])]
        for role in CLUSTER_ROLES
        if replicas.get(role)
    }


def tf_config(cluster: Mapping[str, list[str]], role: str, index: int) -> str:
    """Return TF_CONFIG of the pod `index` of a role, as it is in the environment: JSON without spaces.

    Raises:
        ValueError: the cluster has no such pod; TensorFlow would wait for itself forever.
    """
    if index not in range(len(cluster.get(role, ()))):
        raise ValueError(f"{role} {index}: is not a process of the cluster, which has {dict(cluster)}")
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}}, separators=(",", ":"))


CLUSTER_PORT = 2222


@checked("parameter_servers")
@dataclass(frozen=True, kw_only=True)
class ParameterServers(PodArgs):
    """The pods that hold the variables: on CPU nodes, with as much memory as the model and its optimizer need."""

    replicas: int | None = None
    """Parameter servers. Default: as many as `workers_per_server` asks for."""
    workers_per_server: int = 4
    """Workers that one parameter server serves."""

    def __post_init__(self) -> None:
        """Refuse numbers of servers that nobody meant, and GPUs, which a parameter server has no use for.

        Raises:
            RefusalError: naming the field, the value and what to write.
        """
        super().__post_init__()
        if self.replicas is not None:
            check_range("parameter_servers.replicas", self.replicas, 1, LARGEST_ROLE)
        check_range("parameter_servers.workers_per_server", self.workers_per_server, 1, LARGEST_ROLE)
        if self.resources.accelerator:
            limit = "a parameter server does no work that a GPU would speed up"
            fix = "omit gpus, and use a pool of CPU nodes"
            raise RefusalError("parameter_servers.resources.gpus", self.resources.gpus, limit, fix)

    def number(self, workers: int) -> int:
        """Return how many parameter servers there are for so many workers."""
        return self.replicas or -(-workers // self.workers_per_server)


@checked()
@dataclass(frozen=True, kw_only=True)
class TensorFlowJobArgs(JobArgs):
    """Arguments of TensorFlowJob; what PodArgs says holds for the workers."""

    program: Sequence[Word]
    """Command of every pod, whatever its role: the program learns its role from TF_CONFIG."""
    workers: int
    """Pods that compute. Every one counts: the chief is a role of its own."""
    parameter_servers: ParameterServers | None = None
    """Hold the variables apart (ParameterServerStrategy). Default: the workers mirror them (MultiWorkerMirrored)."""
    chief: PodArgs | None = None
    """The pod that gives the workers their steps. Default: a small one where there are parameter servers, else none.

    Without one, worker 0 does what is done once, such as saving.
    """
    evaluator: PodArgs | None = None
    """A pod that evaluates the checkpoints as they appear. Default: none."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the pods.

        Raises:
            RefusalError: naming the field, the value and what to write.
        """
        super().__post_init__()
        check_range("workers", self.workers, 1, LARGEST_ROLE)
        if not self.program:
            fix = 'set the command to run, such as ("python3", "-m", "trainer.tf.parameter_server")'
            raise RefusalError("program", self.program, "is empty", fix)
        check_tensorflow_program(self.program)
        check_parameter_server_gpus(self, self.program, self.chief)
        roles = {"parameter_servers": self.parameter_servers, "chief": self.chief, "evaluator": self.evaluator}
        others = {name: pod for name, pod in roles.items() if pod is not None}
        for field, pod in {"env": self, **{f"{name}.env": pod for name, pod in others.items()}}.items():
            if TF_CONFIG in pod.env:
                limit = "is written into every pod by the job engine, from the roles"
                raise RefusalError(field, TF_CONFIG, limit, "omit it")
        self._check_one_network(others)

    def _check_one_network(self, others: Mapping[str, PodArgs]) -> None:
        for name, pod in others.items():
            if port(pod.network, CLUSTER_PORT) != port(self.network, CLUSTER_PORT):
                own_port = port(pod.network, CLUSTER_PORT)
                limit = f"its pods would listen on port {own_port}, but the workers on a different one"
                fix = "give all roles the same network, or networks without a port offset"
                raise RefusalError(f"{name}.network", pod.network, limit, fix)

    @property
    def coordinator(self) -> PodArgs | None:
        """The chief, where there is one."""
        if self.chief or not self.parameter_servers:
            return self.chief
        return helper_pod(self, Resources(cpu="500m", memory="2Gi"))

    @property
    def replicas(self) -> dict[str, int]:
        """Number of pods by role; none has zero."""
        servers = self.parameter_servers.number(self.workers) if self.parameter_servers else 0
        pods_by_role = {
            "ps": servers,
            "worker": self.workers,
            "chief": int(self.coordinator is not None),
            "evaluator": int(self.evaluator is not None),
        }
        return {role: number for role, number in pods_by_role.items() if number}


def tensorflow_shape(job_name: str, args: TensorFlowJobArgs) -> JobShape:
    """Return the roles of a job and the plugin that lets each pod find the others.

    Raises:
        RefusalError: TF_CONFIG, which lists all pods, exceeds the kernel's limit for a variable.
    """
    number = port(args.network, CLUSTER_PORT)
    cluster = cluster_spec(job_name, args.replicas, number)
    size = max(variable_bytes(TF_CONFIG, tf_config(cluster, role, len(cluster[role]) - 1)) for role in cluster)
    if size > MAXIMUM_WORD_BYTES:
        limit = f"{TF_CONFIG} lists all pods in {size} bytes, but the kernel accepts at most {MAXIMUM_WORD_BYTES}"
        raise RefusalError("workers", args.workers, limit, "use fewer workers or parameter servers, or a shorter name")
    pods = {"ps": args.parameter_servers, "worker": args, "chief": args.coordinator, "evaluator": args.evaluator}
    # Only a role that runs steps can report them; with parameter servers the workers only compute for the chief.
    stepping = {"chief"} if args.parameter_servers else {"chief", "worker"}
    roles: list[Role] = []
    for role, replicas in args.replicas.items():
        pod = pods[role]
        assert pod is not None, "only roles that have pods are counted"
        roles.append(
            Role(
                name=role,
                replicas=replicas,
                pod=pod,
                command=args.program,
                # Only errors and warnings: every process lists the machine's instruction sets otherwise.
                env={"TF_CPP_MIN_LOG_LEVEL": "1"},
                ports={"cluster": number, **(metrics_ports(pod.network, 1) if role in stepping else {})},
                steps=_steps(role, args),
                restart=_restart(role, args),
                ends_the_job=_ends_the_job(role, args),
            )
        )
    named = [f"--{role}={role}" for role in ("ps", "worker", "chief", "evaluator")]
    return JobShape(kind="tensorflow", roles=roles, plugins={"tensorflow": [*named, f"--port={number}"]})


def _steps(role: str, args: TensorFlowJobArgs) -> list[Step]:
    # A parameter server reads no data, and would only wait for what it does not need.
    return [] if role == "ps" else prepare_steps(args.prepare)


def _restart(role: str, args: TensorFlowJobArgs) -> Restart:
    """Return which pods are restarted when one fails or is lost.

    The chief continues without a lost worker; the variables of a lost parameter server are gone, so that all
    start again from the checkpoint. Workers that mirror each other wait for each other in every step.
    """
    return "alone" if role == "evaluator" or (role == "worker" and args.parameter_servers) else "together"


def _ends_the_job(role: str, args: TensorFlowJobArgs) -> bool:
    return role == "chief" or (role == "worker" and args.coordinator is None and args.evaluator is not None)


class TensorFlowJob(Job):
    """A TensorFlow training job; its pods find each other by TF_CONFIG."""

    cluster_spec: pulumi.Output[dict[str, list[str]]]
    """Address of every process by role, as TF_CONFIG lists them."""

    def __init__(
        self, name: str, platform: Platform, args: TensorFlowJobArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(
            name,
            platform,
            args,
            opts,
            lambda job_name, _resolved: tensorflow_shape(job_name, args),
            default_image=platform.tensorflow_image,
        )
        number = port(args.network, CLUSTER_PORT)
        self.cluster_spec = self.job_name.apply(lambda job_name: cluster_spec(job_name, args.replicas, number))

    def tf_config(self, role: str, index: int) -> pulumi.Output[str]:
        """Return TF_CONFIG of a pod, as the job engine writes it there: what a debugger next to it needs to know.

        Raises:
            ValueError: (when the job's name is known) the job has no such pod.
        """
        return self.cluster_spec.apply(lambda cluster: tf_config(cluster, role, index))
