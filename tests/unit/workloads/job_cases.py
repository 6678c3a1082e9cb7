"""What the tests of all kinds of jobs share: a platform's part of a job, and ways to look into its manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pulumi_kubernetes as kubernetes

from infra.instance_types import instance_type
from infra.offers import PoolOffer, node_facts
from infra.platform import Platform, ResolvedPlatform
from workloads.batch import BatchJobArgs, batch_shape
from workloads.job import named_job_manifest
from workloads.mpi import MPIJobArgs, mpi_shape
from workloads.pytorch import PyTorchJobArgs, pytorch_shape
from workloads.resolved import ResolvedJob
from workloads.tensorflow import TensorFlowJobArgs, tensorflow_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.manifests import Manifest
    from workloads.job_args import JobArgs
    from workloads.volcano_job import JobShape

PLATFORM = ResolvedPlatform(
    namespace="athanor",
    queue="training",
    data_claim="data",
    output_claim="output",
    trainer_image="trainer:1",
    tensorflow_image="tensorflow:1",
)
"""A platform that knows nothing of its nodes."""
RESOLVED = ResolvedJob(platform=PLATFORM, owner="athanor-local", queue="training", image="own:1")


def gpu_pool(instance_type_name: str, **changes: object) -> PoolOffer:
    """Return the offer of an ACK pool of one instance type; its GPUs are whole unless `changes` say otherwise."""
    facts = instance_type(instance_type_name)
    offer = PoolOffer(
        name="train",
        role="gpu",
        instance_types=(facts.name,),
        node=node_facts([facts]),
        zones=(),
        max_nodes=4,
        gpus_per_node=facts.gpus,
        gpu_memory_gib=facts.gpu_memory_gib,
        shares_per_gpu=1,
        sharing=None,
        eni="shared",
        exclusive_pods=0,
        rdma="none",
        taints=(),
        terway=True,
        compute_capability=facts.gpu.compute_capability if facts.gpu else None,
    )
    return replace(offer, **changes)


SHAPES: dict[type[JobArgs], Callable[[str, Any], JobShape]] = {
    PyTorchJobArgs: pytorch_shape,
    TensorFlowJobArgs: tensorflow_shape,
    MPIJobArgs: mpi_shape,
    BatchJobArgs: lambda _, args: batch_shape(args),
}


def manifest_of(args: JobArgs, resolved: ResolvedJob = RESOLVED) -> Manifest:
    """Return the Volcano Job named `job-<hash>`."""
    return named_job_manifest("job", args, lambda name, _: SHAPES[type(args)](name, args), resolved)


def words_for_the_trainer(args: JobArgs) -> list[str]:
    """Return the arguments of the platform's trainer, as a job's workers start it."""
    [container] = pod(manifest_of(args), "worker")["containers"]
    command = [*container.get("command", []), *container.get("args", [])]
    return command[command.index("trainer.train") + 1 :]


def task(manifest: Manifest, role: str) -> dict[str, Any]:
    """Return the task of a role."""
    [match] = [task for task in manifest["spec"]["tasks"] if task["name"] == role]
    return match


def pod(manifest: Manifest, role: str) -> dict[str, Any]:
    """Return the pod spec of a role."""
    return task(manifest, role)["template"]["spec"]


def environment(manifest: Manifest, role: str) -> dict[str, str]:
    """Return the environment of a role's container."""
    [container] = pod(manifest, role)["containers"]
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}


def plain_platform() -> Platform:
    """Return `PLATFORM` as a program has it."""
    return Platform(provider=kubernetes.Provider("cluster", kubeconfig="{}"), **vars(PLATFORM))


def actions(manifest: dict[str, Any], role: str) -> dict[str, str]:
    """Return what follows what for a role's pods: events and exit statuses by name, actions with their delay."""
    policies = task(manifest, role)["policies"]
    named = {policy.get("event") or f"exit {policy['exitCode']}": policy for policy in policies}
    return {name: " after ".join(filter(None, (each["action"], each.get("timeout")))) for name, each in named.items()}
