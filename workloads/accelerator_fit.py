"""Checks of a pod's GPU request against a pool's nodes: whether it fits, for how many pods and ranks at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.errors import RefusalError
from infra.settings.gpu import Cgpu, Mig, Mps, TimeSlicing
from workloads.accelerators import GpuMemory, MigInstances, SharedGpu, WholeGpus

if TYPE_CHECKING:
    from infra.offers import PoolOffer
    from workloads.accelerators import Accelerator
    from workloads.resources import Resources

_FIELD = "resources.gpus"
_FITTING: dict[type, tuple[type, ...]] = {
    WholeGpus: (type(None),),
    SharedGpu: (TimeSlicing, Mps),
    MigInstances: (Mig,),
    GpuMemory: (Cgpu,),
}
"""Kinds of a pool's sharing by what a pod can ask for there."""


def check_accelerator(asked: Accelerator, pool: PoolOffer) -> None:
    """Refuse what no node of the pool can give.

    Raises:
        RefusalError: naming what was asked, what the pool's nodes have, and what to ask for.
    """
    if pool.gpus_per_node == 0:
        raise RefusalError(_FIELD, asked, f"the nodes of pool {pool.name!r} have no GPUs", "name a pool with GPUs")
    if not isinstance(pool.sharing, _FITTING[type(asked)]):
        how = f"shares its GPUs by {pool.sharing.mode}".replace("_", " ") if pool.sharing else "gives whole GPUs only"
        raise RefusalError(_FIELD, asked, f"pool {pool.name!r} {how}", f"request {_what_it_takes(pool)}")
    if isinstance(asked, MigInstances) and isinstance(pool.sharing, Mig):
        _check_mig(asked, pool, pool.sharing)
    elif isinstance(asked, GpuMemory) and isinstance(pool.sharing, Cgpu):
        _check_memory(asked, pool, pool.sharing)
    elif isinstance(asked, WholeGpus) and pool.gpus_per_node:
        _check_whole(asked, pool, pool.gpus_per_node)


def pods_per_node(asked: Accelerator, pool: PoolOffer) -> int | None:
    """Return how many pods that ask for this a node of the pool takes, given that it takes one; None if not known."""
    if pool.gpus_per_node is None:
        return None
    if isinstance(asked, GpuMemory):
        by_memory = pool.gpu_memory_gib // asked.gib
        by_cores = 100 // asked.core_percentage if asked.core_percentage else by_memory
        return pool.gpus_per_node * min(by_memory, by_cores)
    return pool.gpus_per_node * pool.shares_per_gpu // asked.visible


def check_ranks_per_gpu(resources: Resources, workers: int, field: str, ranks: int) -> None:
    """Refuse numbers of ranks that the GPUs of the pods cannot serve.

    Args:
        resources: What a worker asks for.
        workers: Pods that compute.
        field: What the user calls the ranks of a worker.
        ranks: How many it has.

    Raises:
        RefusalError: the GPUs are not shared evenly, or are shares that two ranks may get of one GPU.
    """
    gpus = resources.visible_gpus
    if gpus and gpus % ranks:
        fix = f"use a divisor of {gpus}, normally {gpus} itself"
        raise RefusalError(field, ranks, f"does not divide the {gpus} GPUs of a worker", fix)
    accelerator = resources.accelerator
    if isinstance(accelerator, SharedGpu | MigInstances) and workers * ranks > 1:
        limit = "NCCL refuses two ranks on one GPU, and two shares may be on the same one"
        raise RefusalError(_FIELD, accelerator, limit, "request whole GPUs, or use one worker with one rank")


def _what_it_takes(pool: PoolOffer) -> str:
    """Word what a pod can ask of a pool."""
    if pool.sharing is None:
        return f"whole GPUs: gpus={pool.gpus_per_node or 8} or a divisor of it"
    if isinstance(pool.sharing, Mig):
        return f'gpus=MigInstances(profile="{pool.sharing.profile}")'
    return "gpus=GpuMemory(gib=…)" if isinstance(pool.sharing, Cgpu) else "gpus=SharedGpu()"


def _check_whole(asked: WholeGpus, pool: PoolOffer, per_node: int) -> None:
    if asked.count > per_node:
        limit = f"a node of pool {pool.name!r} has {per_node} GPUs"
        raise RefusalError(_FIELD, asked.count, limit, f"request at most {per_node}, and use more pods")
    if per_node % asked.count:
        divisors = [str(n) for n in range(1, per_node + 1) if per_node % n == 0]
        limit = f"would leave some of the {per_node} GPUs of each node of pool {pool.name!r} unused forever"
        raise RefusalError(_FIELD, asked.count, limit, f"use one of {', '.join(divisors)}")


def _check_mig(asked: MigInstances, pool: PoolOffer, sharing: Mig) -> None:
    if asked.profile != sharing.profile:
        limit = f"the GPUs of pool {pool.name!r} are split into {sharing.profile}"
        raise RefusalError(f"{_FIELD}.profile", asked.profile, limit, f"request {_what_it_takes(pool)}")


def _check_memory(asked: GpuMemory, pool: PoolOffer, sharing: Cgpu) -> None:
    if asked.gib > pool.gpu_memory_gib:
        limit = f"a GPU of pool {pool.name!r} has {pool.gpu_memory_gib} GiB"
        raise RefusalError(f"{_FIELD}.gib", asked.gib, limit, "request less: it must fit on one GPU")
    if asked.core_percentage is not None and sharing.isolation != "memory_and_cores":
        limit = f"pool {pool.name!r} isolates {sharing.isolation}, not compute"
        fix = "omit it, or give the pool `isolation: memory_and_cores`"
        raise RefusalError(f"{_FIELD}.core_percentage", asked.core_percentage, limit, fix)
