"""PyTorch distributed training: torchrun in every pod, all pods or none, resumed when a pod is lost."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pulumi

from infra.errors import RefusalError
from infra.manifests import Manifest, resource_from_output
from infra.pod_network import HostNetwork, PodNetwork, SharedEni, pod_labels, port
from infra.pools import NO_OFFERS, PlatformOffers
from infra.rdma import Rdma, pod_annotations
from workloads.accelerators import GpuMemory, MigInstances, SharedGpu
from workloads.checks import check_command, check_name, check_range
from workloads.network_policy import job_network_policy_manifest, warn_without_network_policy
from workloads.placement import Placement, capabilities, check_placement, devices, network_environment, placed
from workloads.roles import Claims, Container, Resources, pod_spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.platform import Platform

RENDEZVOUS_PORT = 29500
METRICS_PORT = 8002
JOB_LABEL = "athanor.dev/job"
# Kubernetes replaces $(NAME) in commands; Volcano's env plugin sets this one to the pod's index within its task.
_POD_INDEX = "$(VC_TASK_INDEX)"
_SHUTDOWN_MARGIN_SECONDS = 5


@dataclass(frozen=True, kw_only=True)
class PyTorchJobArgs:
    """Arguments of PyTorchJob."""

    program: Sequence[str]
    """What torchrun runs: `("-m", "trainer.train", "--epochs", "30")` or a script's path with its arguments.

    `$(ATHANOR_JOB)` in it stands for the job's own name, which changes whenever its content does.
    """
    workers: int
    """Pods that train. Every one counts: there is no separate master; worker 0 hosts the rendezvous."""
    processes_per_worker: int = 1
    """Ranks per pod; on GPUs one per GPU."""
    resources: Resources = Resources()
    """What one pod asks for."""
    pool: str | None = None
    """Node pool to run on. Default: any whose nodes fit."""
    network: PodNetwork = SharedEni()
    """Network of the pods."""
    rdma: Rdma | None = None
    """Ask for the pool's RDMA device. Default: collectives between nodes go over TCP."""
    prepare: Sequence[str] = ()
    """Command that fills /data/data before training starts, run once per pod; it must be safe to run twice at once."""
    image: pulumi.Input[str] | None = None
    """Image of the pods. Default: the platform's trainer image."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further environment variables."""
    queue: pulumi.Input[str] | None = None
    """Volcano queue. Default: the platform's first one."""
    priority_class: str | None = None
    """Name of a PriorityClass."""
    max_restarts: int = 10
    """How often the whole job starts again after a pod failed or was deleted, before it counts as failed."""
    grace_period_seconds: int = 60
    """Time between SIGTERM and SIGKILL: one step and one checkpoint must fit."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the pods."""
        check_range("workers", self.workers, 1, 1000)
        check_range("processes_per_worker", self.processes_per_worker, 1, 16)
        check_range("max_restarts", self.max_restarts, 0, 1000)
        check_range("grace_period_seconds", self.grace_period_seconds, 10, 3600)
        check_command("program", self.program)
        check_command("prepare", self.prepare)
        if not self.program:
            raise RefusalError("program", self.program, "is empty", 'name what to run: ("-m", "trainer.train")')
        self._check_gpus()

    def _check_gpus(self) -> None:
        gpus = self.resources.visible_gpus
        if gpus and gpus % self.processes_per_worker:
            raise RefusalError(
                "processes_per_worker",
                self.processes_per_worker,
                f"does not divide the {gpus} GPUs of a worker",
                f"use a divisor of {gpus}, normally {gpus} itself",
            )
        accelerator = self.resources.accelerator
        if isinstance(accelerator, GpuMemory):
            limit = "the ACK scheduler picks the card of such a pod, and Volcano schedules jobs"
            raise RefusalError("resources.gpus", accelerator, limit, "ask for whole GPUs, on a pool without sharing")
        if isinstance(accelerator, SharedGpu | MigInstances) and self.workers * self.processes_per_worker > 1:
            limit = "NCCL refuses two ranks on one GPU, and two shares may be of the same"
            raise RefusalError(
                "resources.gpus", accelerator, limit, "ask for whole GPUs, or use one worker of one process"
            )


@dataclass(frozen=True, kw_only=True)
class ResolvedJob:
    """The platform's part of a job, with every Output known."""

    namespace: str
    queue: str
    image: str
    claims: Claims
    offers: PlatformOffers = NO_OFFERS


def torchrun_command(name: str, args: PyTorchJobArgs) -> list[str]:
    """Return the command of a worker pod.

    The rendezvous is static: the pod's index is its node rank and worker 0's DNS name, from the job's headless
    Service, is the master. So rank and pod stay paired over restarts, which exact resumption relies on; a lost pod
    restarts the job as a whole (see `pytorch_job_manifest`), never half of it.
    """
    return [
        *("python3", "-m", "torch.distributed.run"),
        f"--nnodes={args.workers}",
        f"--nproc-per-node={args.processes_per_worker}",
        f"--node-rank={_POD_INDEX}",
        f"--master-addr={name}-worker-0.{name}",
        f"--master-port={port(args.network, RENDEZVOUS_PORT)}",
        "--max-restarts=0",
        *args.program,
    ]


def _placement(label: str, args: PyTorchJobArgs) -> Placement:
    return Placement(
        pods=args.workers,
        own_labels=_labels(label),
        resources=args.resources,
        network=args.network,
        pool=args.pool,
        rdma=args.rdma,
    )


def _environment(name: str, args: PyTorchJobArgs, network: dict[str, str]) -> dict[str, str]:
    on_host = isinstance(args.network, HostNetwork)
    return {
        "ATHANOR_JOB": name,
        # For the program's own flags: on the host's network the port is not always the same.
        **({"ATHANOR_METRICS_PORT": str(port(args.network, METRICS_PORT))} if on_host else {}),
        # torchrun kills its workers 30 s after SIGTERM whatever the pod's grace period says: a longer save was lost.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(args.grace_period_seconds - _SHUTDOWN_MARGIN_SECONDS),
        **network,
        "NCCL_DEBUG": "WARN",
        # Without a CPU limit each process would start a thread per core of the node: two pods with two threads each on
        # two cores trained twelve times slower.
        "OMP_NUM_THREADS": str(max(1, args.resources.whole_cpus // args.processes_per_worker)),
        "PYTHONUNBUFFERED": "1",
        **args.env,
    }


def pytorch_job_manifest(label: str, name: str, args: PyTorchJobArgs, resolved: ResolvedJob) -> Manifest:
    """Return the Volcano Job `name`; its pods carry `label` as the value of athanor.dev/job."""
    placement = _placement(label, args)
    container = Container(
        name="worker",
        image=resolved.image,
        command=torchrun_command(name, args),
        resources=args.resources,
        env=_environment(name, args, network_environment(placement, resolved.offers)),
        ports={
            "rendezvous": port(args.network, RENDEZVOUS_PORT),
            "metrics": port(args.network, METRICS_PORT),
        },
        devices=devices(placement, resolved.offers),
        capabilities=capabilities(placement, resolved.offers),
    )
    prepare = [
        Container(
            name="prepare",
            image=resolved.image,
            command=args.prepare,
            resources=args.resources,
            writes_data=True,
            writes_output=False,
        )
    ]
    pod = pod_spec(
        container,
        resolved.claims,
        init_containers=prepare if args.prepare else [],
        grace_period_seconds=args.grace_period_seconds,
    )
    spec: Manifest = {
        "schedulerName": "volcano",
        "queue": resolved.queue,
        "minAvailable": args.workers,
        "maxRetry": args.max_restarts,
        "plugins": {"env": [], "svc": ["--publish-not-ready-addresses=true", "--disable-network-policy=true"]},
        # Ranks wait for each other in every step: one lost pod stops all, so all start again from the checkpoint.
        "policies": [
            {"event": "PodEvicted", "action": "RestartJob"},
            {"event": "PodFailed", "action": "RestartJob"},
        ],
        "tasks": [
            {
                "name": "worker",
                "replicas": args.workers,
                "template": {
                    "metadata": _pod_metadata(label, args),
                    "spec": {**placed(pod, placement, resolved.offers), "restartPolicy": "Never"},
                },
            }
        ],
    }
    if args.priority_class:
        spec["priorityClassName"] = args.priority_class
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": resolved.namespace, "labels": _labels(label)},
        "spec": spec,
    }


def _pod_metadata(label: str, args: PyTorchJobArgs) -> Manifest:
    labels = {**_labels(label), "app.kubernetes.io/component": "training", **pod_labels(args.network)}
    annotations = pod_annotations(args.rdma)
    return {"labels": labels, **({"annotations": annotations} if annotations else {})}


def content_name(name: str, args: PyTorchJobArgs, resolved: ResolvedJob) -> str:
    """Return `name` with 8 hex digits of its manifest's SHA-256: a changed job is a new object, never a patched one."""
    manifest = pytorch_job_manifest(name, name, args, resolved)
    digest = hashlib.sha256(json.dumps(manifest["spec"], sort_keys=True).encode()).hexdigest()
    return f"{name}-{digest[:8]}"


class PyTorchJob(pulumi.ComponentResource):
    """A distributed training job.

    `up` returns when the job is accepted, not when it ends. A changed image, command or size replaces the job with a
    new object under a new name, and the preview says so.
    """

    job_name: pulumi.Output[str]
    """Name of the Volcano Job: the given name and a hash of its content."""

    def __init__(
        self, name: str, platform: Platform, args: PyTorchJobArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_name("job name", name)
        super().__init__("athanor:workloads:PyTorchJob", name, None, opts)
        warn_without_network_policy(args.network, self)
        resolved = pulumi.Output.all(
            namespace=platform.namespace,
            queue=args.queue or platform.queue,
            image=args.image or platform.trainer_image,
            data=platform.data_claim,
            output=platform.output_claim,
            offers=platform.offers,
        ).apply(lambda known: _resolve(name, args, known))
        self.job_name = resolved.apply(lambda known: content_name(name, args, known))
        job = resolved.apply(lambda known: pytorch_job_manifest(name, content_name(name, args, known), args, known))
        policy = resolved.apply(
            lambda known: job_network_policy_manifest(
                name, known.namespace, _labels(name), port(args.network, METRICS_PORT)
            )
        )
        opened = resource_from_output(
            f"{name}-network",
            ("networking.k8s.io/v1", "NetworkPolicy"),
            policy,
            pulumi.ResourceOptions(parent=self, provider=platform.provider, depends_on=platform.depends_on),
        )
        resource_from_output(
            name,
            ("batch.volcano.sh/v1alpha1", "Job"),
            job,
            pulumi.ResourceOptions(
                parent=self,
                provider=platform.provider,
                depends_on=[*platform.depends_on, opened],
                # The old job must be gone before the new one asks for the same GPUs and writes to the same volume.
                delete_before_replace=True,
            ),
        )
        self.register_outputs({"job_name": self.job_name})


def _resolve(name: str, args: PyTorchJobArgs, known: dict[str, Any]) -> ResolvedJob:
    check_placement(_placement(name, args), known["offers"])
    return ResolvedJob(
        namespace=known["namespace"],
        queue=known["queue"],
        image=known["image"],
        claims=Claims(data=known["data"], output=known["output"]),
        offers=known["offers"],
    )


def _labels(name: str) -> dict[str, str]:
    return {JOB_LABEL: name}
