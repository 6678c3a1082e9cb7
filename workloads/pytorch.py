"""PyTorch distributed training: torchrun in every pod, with a fixed or an elastic number of workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.admitted import LARGEST_ROLE
from infra.descriptions import checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import Word
from infra.pod_network_modes import port
from workloads.accelerator_fit import check_ranks_per_gpu
from workloads.accelerators import WholeGpus
from workloads.checkpoints import Checkpoints
from workloads.checks import check_range
from workloads.gpu_use import check_trainer_ranks
from workloads.job import Job
from workloads.job_args import JobArgs
from workloads.launchers import check_once, check_torchrun_program
from workloads.liveness import heartbeat_arguments, liveness_probe
from workloads.parallel import Parallel, check_parallel
from workloads.pods import OUTPUT_PATH
from workloads.precision import (
    Float32Matmul,
    Precision,
    check_layout,
    check_products,
    float32_arguments,
    precision_arguments,
)
from workloads.resources import Resources
from workloads.restarts import PLATFORM_PROGRAM_RESTARTS
from workloads.roles import START_WAIT_SECONDS, Role, Step, helper_pod, prepare_steps
from workloads.volcano_job import POD_INDEX, JobShape, host, metrics_ports

if TYPE_CHECKING:
    import pulumi

    from infra.platform import Platform

RENDEZVOUS_PORT = 29500
ELASTIC_STORE_PORT = 29400
_SHUTDOWN_MARGIN_SECONDS = 5
# Sent along as text: a job's own image has torch, and nothing of ours.
_ELASTIC_WORKER = (Path(__file__).parent / "elastic_worker.py").read_text(encoding="utf-8")
_FIXED_WORKER = (Path(__file__).parent / "fixed_worker.py").read_text(encoding="utf-8")
# A pod that was lost is noticed after three seconds instead of fifteen, and a late one is not turned away: after the
# minimum is there, the others still wait this long for more. is_host: the store's pod is none of the agents.
_ELASTIC_SETTINGS = {
    "is_host": "false",
    "join_timeout": str(START_WAIT_SECONDS),
    "last_call_timeout": "5",
    "keep_alive_interval": "1",
    "keep_alive_max_attempt": "3",
}


@checked()
@dataclass(frozen=True, kw_only=True)
class PyTorchJobArgs(JobArgs):
    """Arguments of PyTorchJob."""

    program: Sequence[Word]
    """What torchrun runs: `("-m", "trainer.train", "--epochs", "30")` or a script's path with its arguments.

    `$(ATHANOR_JOB)` in it stands for the job's own name, which changes whenever its content does, and
    `$(VC_TASK_INDEX)` for the worker's number; everything else arrives as written, in all kinds of jobs.
    """
    workers: int
    """Pods that train. Every one counts: there is no separate master."""
    minimum_workers: int | None = None
    """Makes the job elastic: it starts with this many, continues with those that are left, and accepts new ones.

    A small further pod, the rendezvous, then holds what the workers agree on, so that any of them can be lost. The
    program must be able to resume with another number of ranks. Never more than `workers`, the default: none may be
    missing.
    """
    processes_per_worker: int | None = None
    """Ranks per pod. Default: one per GPU, or one without GPUs. Fewer are for a program of your own that drives several
    GPUs from one process, or starts its own processes."""
    parallel: Parallel | None = None
    """How the ranks divide the model: `Parallel(shard=8, tensor=2)`. `program` gets it as arguments, which the
    platform's trainer understands. Default: every rank has the whole model."""
    checkpoints: Checkpoints | None = None
    """When checkpoints are saved, how, and which are kept: `Checkpoints(mode="async", keep_every=1000)`. `program` gets
    it as arguments, which the platform's trainer understands. Default: as the program does by itself."""
    precision: Precision | None = None
    """Numbers that the program computes in: `bf16` (copies of the float32 parameters), `bf16_autocast` (products and
    convolutions alone; every rank has the whole model) or `fp32`. bfloat16 is refused on GPUs before Ampere. `program`
    gets it as an argument, which the platform's trainer understands. Default: as the program does by itself."""
    float32_matmul: Float32Matmul | None = None
    """How exactly float32 numbers are multiplied, in torch's words: `high` and `medium` are TF32 on GPUs from Ampere
    on; other hardware multiplies in float32, and the trainer says so. Not with bfloat16. `program` gets it as an
    argument, which the platform's trainer understands. Default: as the program does by itself."""
    liveness_probe: bool = False
    """Whether the kubelet ends a pod whose ranks no longer make progress, so that the job restarts from its checkpoint.
    `program` is the platform's trainer, in an image that contains it, or uses athanor_run or one of its callbacks for
    frameworks; of other programs the probe knows nothing."""
    numa_binding: bool | None = None
    """Whether torchrun binds each rank to the cores of its GPU's NUMA node; the image then needs numactl and torch 2.9.
    Default: where the image is the platform's and a rank has a whole GPU, unless the pods are `guaranteed`: the kubelet
    chooses their cores, and a rank whose GPU is next to none of them would not start."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the pods."""
        super().__post_init__()
        check_range("workers", self.workers, 1, LARGEST_ROLE)
        if self.processes_per_worker is not None:
            check_range("processes_per_worker", self.processes_per_worker, 1, 16)
        if not self.program:
            raise RefusalError(
                "program", self.program, "is empty", 'set the command to run, such as ("-m", "trainer.train")'
            )
        check_torchrun_program(self.program)
        if self.minimum_workers is not None:
            check_range("minimum_workers", self.minimum_workers, 1, self.workers)
        check_ranks_per_gpu(self.resources, self.workers, "processes_per_worker", self.ranks_per_worker)
        check_trainer_ranks(self, self.program, "processes_per_worker", self.ranks_per_worker)
        if self.parallel is not None:
            check_parallel(
                self.parallel,
                self.program,
                workers=self.workers,
                processes_per_worker=self.ranks_per_worker,
                minimum_workers=self.minimum_workers,
            )
        if self.checkpoints is not None:
            check_once(self.program, "checkpoints", self.checkpoints.arguments())
        check_once(self.program, "precision", precision_arguments(self.precision))
        check_layout(self.precision, self.parallel)
        check_once(self.program, "float32_matmul", float32_arguments(self.float32_matmul))
        check_products(self.float32_matmul, self.precision)
        if self.liveness_probe:
            check_once(self.program, "liveness_probe", heartbeat_arguments(self.program))
        if self.numa_binding and not self._a_gpu_for_each_rank:
            limit = "binds the rank with each local number to the cores nearest to the GPU with that number"
            raise RefusalError("numa_binding", self.numa_binding, limit, "request a whole GPU per rank, or omit it")

    @property
    def torchrun_program(self) -> Sequence[str]:
        """The program that torchrun runs, with the arguments that other fields imply."""
        fields = (each for each in (self.parallel, self.checkpoints) if each is not None)
        work = heartbeat_arguments(self.program) if self.liveness_probe else ()
        of_fields = (argument for each in fields for argument in each.arguments())
        numbers = (*precision_arguments(self.precision), *float32_arguments(self.float32_matmul))
        return (*self.program, *of_fields, *numbers, *work)

    @property
    def ranks_per_worker(self) -> int:
        """Ranks that torchrun starts in a pod."""
        return self.resources.ranks if self.processes_per_worker is None else self.processes_per_worker

    @property
    def _a_gpu_for_each_rank(self) -> bool:
        asked = self.resources.accelerator
        return isinstance(asked, WholeGpus) and asked.count == self.ranks_per_worker

    @property
    def binds_ranks(self) -> bool:
        """Whether ranks are bound to the cores of a NUMA node."""
        if self.numa_binding is not None:
            return self.numa_binding
        return self._a_gpu_for_each_rank and self.image is None and not self.resources.guaranteed


def torchrun_command(job_name: str, args: PyTorchJobArgs) -> list[str]:
    """Return the command of a worker pod.

    The rendezvous of a fixed number of workers is static: the pod's index is its node rank and worker 0's DNS name,
    from the job's headless Service, is the master. So rank and pod stay paired over restarts, which exact resumption
    relies on; a lost pod restarts the job as a whole, never half of it.
    """
    if args.minimum_workers is None:
        options = [*_fixed_rendezvous(job_name, args), *_binding(args)]
        return [*_fixed_launcher(job_name, args), *options, *args.torchrun_program]
    store = _store(job_name, args)
    options = [*_elastic(job_name, store, args), *_binding(args)]
    return ["python3", "-c", _ELASTIC_WORKER, store, *options, *args.torchrun_program]


def _binding(args: PyTorchJobArgs) -> list[str]:
    """Return torchrun's option (torch 2.15, torch/numa/binding.py): without it a rank's memory may be a socket away."""
    return ["--numa-binding=node"] if args.binds_ranks else []


def _fixed_launcher(job_name: str, args: PyTorchJobArgs) -> list[str]:
    master = (host(job_name, "worker", 0), str(port(args.network, RENDEZVOUS_PORT)))
    return ["python3", "-c", _FIXED_WORKER, *master, POD_INDEX, str(args.workers)]


def _fixed_rendezvous(job_name: str, args: PyTorchJobArgs) -> list[str]:
    return [
        f"--nnodes={args.workers}",
        f"--nproc-per-node={args.ranks_per_worker}",
        f"--node-rank={POD_INDEX}",
        f"--master-addr={host(job_name, 'worker', 0)}",
        f"--master-port={port(args.network, RENDEZVOUS_PORT)}",
        f"--rdzv-conf=timeout={START_WAIT_SECONDS}",
        "--max-restarts=0",
    ]


def _store(job_name: str, args: PyTorchJobArgs) -> str:
    """Return the address of the store that an elastic job's rendezvous is kept in."""
    return f"{host(job_name, 'rendezvous', 0)}:{port(args.network, ELASTIC_STORE_PORT)}"


def _elastic(job_name: str, store: str, args: PyTorchJobArgs) -> list[str]:
    settings = ",".join(f"{name}={value}" for name, value in _ELASTIC_SETTINGS.items())
    return [
        f"--nnodes={args.minimum_workers}:{args.workers}",
        f"--nproc-per-node={args.ranks_per_worker}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={store}",
        f"--rdzv-id={job_name}",
        f"--rdzv-conf={settings}",
        f"--max-restarts={PLATFORM_PROGRAM_RESTARTS if args.max_restarts is None else args.max_restarts}",
    ]


def pytorch_shape(job_name: str, args: PyTorchJobArgs) -> JobShape:
    """Return the roles of a job: its workers, and for an elastic one the store of their rendezvous."""
    network_ports = {
        "rendezvous": port(args.network, RENDEZVOUS_PORT),
        **metrics_ports(args.network, args.ranks_per_worker),
    }
    elastic = args.minimum_workers is not None
    workers = Role(
        name="worker",
        replicas=args.workers,
        minimum=args.minimum_workers,
        pod=args,
        command=torchrun_command(job_name, args),
        processes=args.ranks_per_worker,
        precision=args.precision,
        env=torchrun_environment(job_name, args.grace_period_seconds, elastic=elastic),
        ports=network_ports,
        steps=_steps(job_name, args),
        probes={"livenessProbe": liveness_probe(args.program)} if args.liveness_probe else {},
        restart="elastic" if elastic else "together",
        ends_the_job=elastic,
    )
    return JobShape(kind="pytorch", roles=[workers, _rendezvous(args)] if elastic else [workers])


def torchrun_environment(job_name: str, grace_period_seconds: int, *, elastic: bool = False) -> dict[str, str]:
    """Return the environment that torchrun and its ranks need."""
    # With the store shared, a worker that joins later waits for a key that is never written, and dies after a minute.
    own_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if elastic else {}
    return {
        # torchrun kills its workers 30 s after SIGTERM whatever the pod's grace period says: a longer save was lost.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(grace_period_seconds - _SHUTDOWN_MARGIN_SECONDS),
        # What the ranks were doing when a collective hung, a file of less than 1 MB per rank: /tmp goes with the pod.
        # Torch creates no folder, so the files lie in one that is there.
        "TORCH_FR_DUMP_TEMP_FILE": f"{OUTPUT_PATH}/flight-recorder-{job_name}-rank-",
        **own_store,
    }


def _steps(job_name: str, args: PyTorchJobArgs) -> list[Step]:
    prepare = prepare_steps(args.prepare)
    if args.minimum_workers is None:
        return prepare
    wait = ["python3", "-m", "trainer.wait_for_hosts", f"--timeout_seconds={START_WAIT_SECONDS}"]
    command = [*wait, _store(job_name, args)]
    return [*prepare, Step(name="wait", command=command, in_platform_image=True)]


def _rendezvous(args: PyTorchJobArgs) -> Role:
    number = port(args.network, ELASTIC_STORE_PORT)
    return Role(
        name="rendezvous",
        replicas=1,
        # On no node of the workers' pool: it must outlive one that is taken back. The size: torch itself.
        pod=helper_pod(args, Resources(cpu="100m", memory="1Gi")),
        command=["python3", "-m", "trainer.rendezvous", f"--port={number}"],
        in_platform_image=True,
        ports={"store": number},
    )


class PyTorchJob(Job):
    """A distributed training job run by torchrun."""

    def __init__(
        self, name: str, platform: Platform, args: PyTorchJobArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, platform, args, opts, lambda job_name, _: pytorch_shape(job_name, args))
