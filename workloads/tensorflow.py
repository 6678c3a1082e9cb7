"""TensorFlow training: parameter servers and workers with a coordinating chief, or workers that mirror each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.errors import RefusalError
from infra.pod_network import port
from workloads.accelerators import GpuMemory
from workloads.checks import check_command, check_range
from workloads.job import Job
from workloads.job_args import JobArgs
from workloads.resources import Resources
from workloads.roles import PodArgs, Role, Step, helper_pod, prepare_steps
from workloads.tf_config import cluster_spec, tf_config
from workloads.volcano_job import ENDS_THE_JOB, RESTART_ALONE, RESTART_TOGETHER, JobShape, metrics_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi

    from infra.manifests import Manifest
    from infra.platform import Platform

CLUSTER_PORT = 2222
_MAXIMUM_PODS = 1000


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
            check_range("parameter_servers.replicas", self.replicas, 1, _MAXIMUM_PODS)
        check_range("parameter_servers.workers_per_server", self.workers_per_server, 1, _MAXIMUM_PODS)
        if self.resources.accelerator:
            limit = "a parameter server computes nothing that a GPU would speed up"
            fix = "leave gpus out, and name a pool of CPU nodes"
            raise RefusalError("parameter_servers.resources.gpus", self.resources.gpus, limit, fix)

    def number(self, workers: int) -> int:
        """Return how many parameter servers there are for so many workers."""
        return self.replicas or -(-workers // self.workers_per_server)


@dataclass(frozen=True, kw_only=True)
class TensorFlowJobArgs(JobArgs):
    """Arguments of TensorFlowJob; what PodArgs says holds for the workers."""

    program: Sequence[str]
    """Command of every pod, whatever its role: TF_CONFIG tells the program which one it is."""
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
        check_range("workers", self.workers, 1, _MAXIMUM_PODS)
        check_command("program", self.program)
        if not self.program:
            fix = 'name what to run: ("python3", "-m", "trainer.tf.parameter_server")'
            raise RefusalError("program", self.program, "is empty", fix)
        if isinstance(self.resources.accelerator, GpuMemory):
            limit = "the ACK scheduler picks the card of such a pod, and Volcano schedules jobs"
            raise RefusalError("resources.gpus", self.resources.gpus, limit, "ask for whole GPUs")
        if "TF_CONFIG" in self.env:
            limit = "is written into every pod by the job engine, from the roles"
            raise RefusalError("env", "TF_CONFIG", limit, "leave it out, and change the roles instead")
        self._check_one_network()

    def _check_one_network(self) -> None:
        others = {"parameter_servers": self.parameter_servers, "chief": self.chief, "evaluator": self.evaluator}
        for name, pod in others.items():
            if pod is not None and port(pod.network, CLUSTER_PORT) != port(self.network, CLUSTER_PORT):
                limit = f"its pods would listen on port {port(pod.network, CLUSTER_PORT)}, the workers' on another"
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
        found = {
            "ps": servers,
            "worker": self.workers,
            "chief": int(self.coordinator is not None),
            "evaluator": int(self.evaluator is not None),
        }
        return {role: number for role, number in found.items() if number}


def tensorflow_shape(args: TensorFlowJobArgs) -> JobShape:
    """Return the roles of a job and the plugin that tells each pod of the others."""
    number = port(args.network, CLUSTER_PORT)
    pods = {"ps": args.parameter_servers, "worker": args, "chief": args.coordinator, "evaluator": args.evaluator}
    # Whoever does the steps knows how they go; with parameter servers the workers only lend themselves to the chief.
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
                policies=_policies(role, args),
            )
        )
    named = [f"--{role}={role}" for role in ("ps", "worker", "chief", "evaluator")]
    return JobShape(kind="tensorflow", roles=roles, plugins={"tensorflow": [*named, f"--port={number}"]})


def _steps(role: str, args: TensorFlowJobArgs) -> list[Step]:
    # A parameter server reads no data, and would only wait for what it does not need.
    return [] if role == "ps" else prepare_steps(args.prepare)


def _policies(role: str, args: TensorFlowJobArgs) -> tuple[Manifest, ...]:
    """Return what follows when a pod is lost or done.

    The chief goes on without a worker until it is back; the variables of a lost parameter server are gone, so that all
    start again from the checkpoint. Workers that mirror each other wait for each other in every step.
    """
    if role == "evaluator" or (role == "worker" and args.parameter_servers):
        return RESTART_ALONE
    if role == "chief":
        return (*RESTART_TOGETHER, ENDS_THE_JOB)
    if role == "worker" and args.coordinator is None and args.evaluator is not None:
        return (*RESTART_TOGETHER, ENDS_THE_JOB)
    return ()


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
            lambda _name, _resolved: tensorflow_shape(args),
            default_image=platform.tensorflow_image,
        )
        number = port(args.network, CLUSTER_PORT)
        self.cluster_spec = self.job_name.apply(lambda job_name: cluster_spec(job_name, args.replicas, number))

    def tf_config(self, role: str, index: int) -> pulumi.Output[str]:
        """Return TF_CONFIG of a pod, as the job engine writes it there: what a debugger beside it needs to be told.

        Raises:
            ValueError: (when the job's name is known) the job has no such pod.
        """
        return self.cluster_spec.apply(lambda cluster: tf_config(cluster, role, index))
