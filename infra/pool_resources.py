"""Total resources of node pools, by resource name: the base of queues' shares and of the quota.

Amounts are those of the instance types. A kubelet's own reservation (on ACK a few percent of CPU and memory) is not
subtracted: a limit that is a little too high is harmless, and one a little too low would refuse a pod that fills a
node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from infra.gpu.sharing import GPU_CORE_RESOURCE, GPU_MEMORY_RESOURCE, GPU_RESOURCE, SHARED_GPU_RESOURCE, mig_resource
from infra.instance_types import instance_type
from infra.kubernetes.quantities import mib_quantity, millis_quantity
from infra.settings.gpu import Cgpu, Mig

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from infra.offers import PoolOffer

CPU, MEMORY = "cpu", "memory"
Amounts = dict[str, int]
"""Whole numbers by resource name: CPU in millicores, memory in MiB, anything else in pieces."""
Size = Literal["fewest", "most"]
"""Size of autoscaled pools to count: the nodes that are always there, or all that there can ever be."""


def pool_amounts(pools: Iterable[PoolOffer], size: Size) -> Amounts:
    """Return the total resources of the pools. Machines that no table of ours knows (Lingjun) count for nothing."""
    total: Amounts = {}
    for pool in pools:
        nodes = pool.min_nodes if size == "fewest" else pool.max_nodes
        for name, amount in _node_amounts(pool, size).items():
            total[name] = total.get(name, 0) + nodes * amount
    return total


def scarce_names(amounts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the resources that queues share by: those of GPUs, and CPU only where there is no GPU.

    Volcano compares each resource for itself: with CPU and memory next to the GPUs, a queue that keeps to its GPUs and
    uses a little more CPU would lose a job for it, and take one back at once.
    """
    there = {name for name, amount in amounts.items() if amount}
    gpus = tuple(sorted(there - {CPU, MEMORY, GPU_CORE_RESOURCE}))
    return gpus or (CPU,)


def fraction_of(amounts: Mapping[str, int], names: Iterable[str], part: int, whole: int) -> Amounts:
    """Return part/whole of some of the amounts, rounded down; what rounds to nothing is left out."""
    rounded = {name: amounts.get(name, 0) * part // whole for name in names}
    return {name: amount for name, amount in rounded.items() if amount}


def as_quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as Kubernetes quantities."""
    return {name: _quantity(name, amount) for name, amount in sorted(amounts.items())}


def _quantity(name: str, amount: int) -> str:
    if name == CPU:
        return millis_quantity(amount)
    return mib_quantity(amount) if name == MEMORY else str(amount)


def _node_amounts(pool: PoolOffer, size: Size) -> Amounts:
    """Return the resources of one node; where its type may be one of several, the smallest or the largest of each."""
    facts = [instance_type(name) for name in pool.instance_types]
    if not facts:
        return {}
    pick = min if size == "fewest" else max
    return {
        CPU: 1000 * pick(each.vcpus for each in facts),
        MEMORY: 1024 * pick(each.memory_gib for each in facts),
        **_gpu_amounts(pool),
    }


def _gpu_amounts(pool: PoolOffer) -> Amounts:
    gpus = pool.gpus_per_node or 0
    if not gpus:
        return {}
    if isinstance(pool.sharing, Cgpu):
        cores = {GPU_CORE_RESOURCE: 100 * gpus} if pool.sharing.isolation == "memory_and_cores" else {}
        return {GPU_MEMORY_RESOURCE: gpus * pool.gpu_memory_gib, **cores}
    if isinstance(pool.sharing, Mig):
        return {mig_resource(pool.sharing.profile): gpus * pool.shares_per_gpu}
    return {SHARED_GPU_RESOURCE if pool.sharing else GPU_RESOURCE: gpus * pool.shares_per_gpu}
