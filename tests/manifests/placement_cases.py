"""Jobs on every network, with every kind of GPU request: cases of the golden manifests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infra.offers import PlatformOffers
from infra.pod_network_modes import ExclusiveEni, HostNetwork, SharedEni, TrunkEni
from infra.pools import pool_offers
from infra.rdma import Rdma
from infra.settings.stack import Settings
from tests.recording_engine import Recording, record
from tests.unit.workloads.job_cases import plain_platform
from workloads.accelerators import MigInstances, SharedGpu
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.platform import Platform

ACK: dict[str, object] = {
    "alicloud": {
        "region": "cn-hangzhou",
        "zones": ["cn-hangzhou-i"],
        "node_pools": [
            {"name": "system", "role": "system", "instance_types": ["ecs.g7.2xlarge"], "minimum": 3, "maximum": 3},
            {"name": "train", "role": "gpu", "instance_types": ["ecs.ebmgn7e.32xlarge"], "maximum": 4},
            {
                "name": "alone",
                "role": "gpu",
                "instance_types": ["ecs.ebmgn7e.32xlarge"],
                "maximum": 4,
                "eni": "exclusive",
            },
            {"name": "rdma", "role": "gpu", "instance_types": ["ecs.gn8is-8x.32xlarge"], "maximum": 4, "rdma": True},
            {
                "name": "lingjun",
                "role": "gpu",
                "instance_types": [],
                "minimum": 4,
                "maximum": 4,
                "eni": "exclusive",
                "rdma": True,
                "lingjun": {"cluster_id": "lingjun-cluster", "group_id": "group", "ipv6": True},
            },
            {
                "name": "infer",
                "role": "gpu",
                "instance_types": ["ecs.gn7i-c16g1.4xlarge"],
                "maximum": 8,
                "gpu": {"sharing": {"mode": "cgpu", "isolation": "memory_and_cores"}},
            },
        ],
    }
}


def simulated(sharing: dict[str, object]) -> dict[str, object]:
    groups = [{"instance_type": "ecs.ebmgn7e.32xlarge"}]
    return {"cluster": {"simulated_nodes": groups}, "gpu": {"device_plugin": True, "sharing": sharing}}


def platform_of(stack: dict[str, object]) -> Platform:
    """Return a platform with the pools of a stack's settings."""
    pools = pool_offers(Settings.model_validate(stack))
    return replace(
        plain_platform(),
        namespace="team",
        queue="research",
        trainer_image="registry.example/athanor/trainer:0123456789abcdef",
        tensorflow_image="registry.example/athanor/trainer-tensorflow:0123456789abcdef",
        offers=PlatformOffers(pools=pools, pod_networkings=("storage",), pod_security="privileged"),
    )


def _job(stack: dict[str, object], gpus: object, **asked: object) -> Callable[[object], Recording]:
    whole = isinstance(gpus, int)
    args = PyTorchJobArgs(
        program=("-m", "trainer.train"),
        workers=4 if whole else 1,
        processes_per_worker=gpus if whole else 1,
        resources=Resources(cpu="64", memory="512Gi", gpus=gpus, shared_memory="64Gi"),
        **asked,
    )
    return lambda _: record(lambda: PyTorchJob("resnet", platform_of(stack), args), preview=False)


JOB = ("Job", "NetworkPolicy")
PLACEMENT_CASES: dict[str, tuple[Callable[[object], Recording], tuple[str, ...]]] = {
    "job-shared-eni": (_job(ACK, 8, network=SharedEni(), pool="train"), JOB),
    "job-trunk-eni": (_job(ACK, 8, network=TrunkEni(pod_networking="storage"), pool="train"), JOB),
    "job-exclusive-eni": (_job(ACK, 8, network=ExclusiveEni(), pool="alone"), JOB),
    "job-host-network": (_job(ACK, 8, network=HostNetwork(port_offset=10), pool="train"), JOB),
    "job-erdma": (_job(ACK, 8, rdma=Rdma(), pool="rdma"), JOB),
    "job-lingjun": (_job(ACK, 8, network=ExclusiveEni(), rdma=Rdma(), pool="lingjun"), JOB),
    "job-shared-gpu": (_job(simulated({"mode": "time_slicing", "replicas": 4}), SharedGpu()), JOB),
    "job-mig": (_job(simulated({"mode": "mig", "profile": "3g.40gb"}), MigInstances(profile="3g.40gb")), JOB),
}
