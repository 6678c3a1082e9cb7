"""Every kind of job on every network, with every kind of accelerator that it can use: cases of golden manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.pod_network_modes import ExclusiveEni, HostNetwork, SharedEni, TrunkEni
from infra.rdma import Rdma
from tests.manifests.placement_cases import ACK, JOB, platform_of, simulated
from tests.recording_engine import Recording, record
from workloads.accelerators import MigInstances, SharedGpu
from workloads.batch import BatchJob, BatchJobArgs
from workloads.egress import Egress
from workloads.git_source import GitSource
from workloads.mpi import MPIJob, MPIJobArgs
from workloads.placement import Spread, Toleration
from workloads.pods import ClaimMount
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources
from workloads.roles import PodArgs
from workloads.tensorflow import ParameterServers, TensorFlowJob, TensorFlowJobArgs

if TYPE_CHECKING:
    from collections.abc import Callable

Case = tuple["Callable[[object], Recording]", tuple[str, ...]]

NETWORKS: dict[str, dict[str, object]] = {
    "shared-eni": {"network": SharedEni(), "pool": "train"},
    "trunk-eni": {"network": TrunkEni(pod_networking="storage"), "pool": "train"},
    "exclusive-eni": {"network": ExclusiveEni(), "pool": "alone"},
    "host-network": {"network": HostNetwork(port_offset=10), "pool": "train"},
    "erdma": {"rdma": Rdma(), "pool": "rdma"},
    "lingjun": {"network": ExclusiveEni(), "rdma": Rdma(), "pool": "lingjun"},
}
SHARES: dict[str, tuple[dict[str, object], object]] = {
    "shared-gpu": ({"mode": "time_slicing", "replicas": 4}, SharedGpu()),
    "mig": ({"mode": "mig", "profile": "3g.40gb"}, MigInstances(profile="3g.40gb")),
}


def _mpi(gpus: object, workers: int, **placed: object) -> MPIJobArgs:
    slots = gpus if isinstance(gpus, int) and gpus else 1
    return MPIJobArgs(
        program=("python3", "train.py"), workers=workers, slots_per_worker=slots, resources=_resources(gpus), **placed
    )


def _tensorflow(gpus: object, workers: int, **placed: object) -> TensorFlowJobArgs:
    servers = ParameterServers(workers_per_server=2, network=placed.get("network", SharedEni()))
    return TensorFlowJobArgs(
        program=("python3", "train.py"),
        workers=workers,
        parameter_servers=servers if isinstance(servers.network, SharedEni | TrunkEni | HostNetwork) else _apart(),
        resources=_resources(gpus),
        **placed,
    )


def _apart() -> ParameterServers:
    """Return servers on the ordinary network: no CPU pool gives every pod an interface of its own."""
    return ParameterServers(workers_per_server=2)


def _batch(gpus: object, workers: int, **placed: object) -> BatchJobArgs:
    return BatchJobArgs(command=("python3", "part.py"), pods=workers, resources=_resources(gpus), **placed)


def _resources(gpus: object) -> Resources:
    return Resources(cpu="64", memory="512Gi", gpus=gpus, shared_memory="64Gi")


KINDS = {"mpi": (MPIJob, _mpi), "tensorflow": (TensorFlowJob, _tensorflow), "batch": (BatchJob, _batch)}


def _case(kind: str, stack: dict[str, object], gpus: object, workers: int, **placed: object) -> Case:
    component, arguments = KINDS[kind]

    def program() -> None:
        component("job", platform_of(stack), arguments(gpus, workers, **placed))

    return (lambda _: record(program, preview=False)), JOB


def _everything() -> None:
    args = PyTorchJobArgs(
        program=("train.py",),
        workers=4,
        minimum_workers=2,
        source=GitSource(repository="https://git.example/team/project.git", tag="v1", secret="git-robot"),
        prepare=("python3", "prepare.py"),
        volumes=(ClaimMount(claim="cache", path="/cache"),),
        node_labels={"disk": "fast"},
        tolerations=(Toleration(key="team", value="vision"),),
        spread=Spread(over="zones", required=True),
        egress=(Egress(to="internet"), Egress(to="203.0.113.0/24", ports=(443, 5432))),
        labels={"team": "vision"},
        priority_class="high",
        deadline_seconds=3600,
        wait_seconds=600,
        rerun=2,
    )
    PyTorchJob("everything", platform_of(ACK), args)


def _mirrored() -> None:
    args = TensorFlowJobArgs(program=("python3", "train.py"), workers=2, evaluator=PodArgs())
    TensorFlowJob("mirrored", platform_of(ACK), args)


JOB_KIND_CASES: dict[str, Case] = {
    **{f"{kind}-{network}": _case(kind, ACK, 8, 2, **placed) for kind in KINDS for network, placed in NETWORKS.items()},
    **{
        f"{kind}-{share}": _case(kind, simulated(sharing), gpus, 1)
        for kind in KINDS
        for share, (sharing, gpus) in SHARES.items()
    },
    **{f"{kind}-cpu": _case(kind, ACK, 0, 2) for kind in KINDS},
    "pytorch-everything": (lambda _: record(_everything, preview=False), JOB),
    "tensorflow-mirrored": (lambda _: record(_mirrored, preview=False), JOB),
}
