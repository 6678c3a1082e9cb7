"""Workloads that a step requests, as plain data, which the run's Pulumi program declares."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.namespaces import PodSecurity
    from infra.settings.node_pools import NodePoolSettings

NetworkKind = Literal["shared", "exclusive", "host"]
PODS_TO_COMPARE = 2
"""Nodes that a run takes of a pool: the fewest that have a network between them."""
_SHARE_OF_A_NODE = 2
"""A pod asks for half of a node's cores and memory, and for all of its GPUs: ACK advises to stay below 70 % of a
node, of which it keeps a part, or to test first (ACK, "FAQ about node instant scaling")."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Pods that report what they see of their nodes (trainer/helpers/hardware.py), one on each."""

    name: str
    pool: str
    pods: int
    gpus: int
    """GPUs of each: all of its node's."""
    cpus: int
    memory_gib: int
    busy_seconds: int = 0
    """Seconds for which the GPUs compute."""
    check_minutes: int = 0
    """Instead, how long `trainer.hardware_check` may take."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """NCCL between two nodes of a pool over one network."""

    name: str
    pool: str
    network: NetworkKind
    rdma: bool
    gpus: int
    cpus: int
    memory_gib: int


def probe(pool: NodePoolSettings, busy_seconds: int) -> Probe:
    """Return the probe of a GPU pool."""
    share = _share(pool)
    name, pods = f"probe-{pool.name}", min(PODS_TO_COMPARE, pool.maximum)
    return Probe(name=name, pool=pool.name, pods=pods, busy_seconds=busy_seconds, **share)


def check(pool: NodePoolSettings, minutes: int) -> Probe:
    """Return the hardware check of one node of a GPU pool."""
    return Probe(name=f"check-{pool.name}", pool=pool.name, pods=1, check_minutes=minutes, **_share(pool))


def measurements(pool: NodePoolSettings, pod_security: PodSecurity) -> list[Measurement]:
    """Return every network that a GPU pool has, the ordinary one first."""
    own: NetworkKind = "exclusive" if pool.eni == "exclusive" else "shared"
    kinds: list[NetworkKind] = [own, *(["host"] if pod_security == "privileged" else [])]
    share = _share(pool)
    return [
        Measurement(
            name=f"nccl-{pool.name}-{kind}{'-rdma' if rdma else ''}", pool=pool.name, network=kind, rdma=rdma, **share
        )
        for kind in kinds
        for rdma in ((False, True) if pool.rdma else (False,))
    ]


def _share(pool: NodePoolSettings) -> dict[str, int]:
    smallest = min(pool.facts, key=lambda facts: facts.vcpus)
    return {
        "gpus": smallest.gpus,
        "cpus": max(1, smallest.vcpus // _SHARE_OF_A_NODE),
        "memory_gib": max(1, smallest.memory_gib // _SHARE_OF_A_NODE),
    }


def to_data(request: Probe | Measurement) -> dict[str, Any]:
    """Return a request as JSON data."""
    return {"kind": type(request).__name__, **asdict(request)}


def from_data(data: Mapping[str, Any]) -> Probe | Measurement:
    """Return the request from the data of `to_data`."""
    kinds = {kind.__name__: kind for kind in (Probe, Measurement)}
    return kinds[data["kind"]](**{name: value for name, value in data.items() if name != "kind"})
