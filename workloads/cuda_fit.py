"""Checks of the CUDA in a workload's image against the GPUs that its pods may get, and their driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.cuda import DEFAULT_DRIVER
from infra.errors import RefusalError
from infra.offers import pool_named
from workloads.accelerator_fit import check_accelerator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.cuda import ImageCuda
    from infra.offers import PlatformOffers, PoolOffer
    from workloads.accelerators import Accelerator
    from workloads.placement import Placement


def check_cuda(cuda: ImageCuda | None, asked: Placement, offers: PlatformOffers) -> None:
    """Refuse GPUs that an image cannot use.

    Args:
        cuda: What the image holds; None where nobody knows, as of a user's own image.
        asked: What the pods ask for.
        offers: What the platform offers.

    Raises:
        RefusalError: the driver of a pool where the pods may run is too old for it, or the GPUs there are.
    """
    if cuda is None:
        return
    otherwise = "" if asked.pool else "set another pool, because without one the pods may run there; or "
    for pool in possible_pools(asked, offers):
        _check_pool(cuda, pool, otherwise)


def possible_pools(asked: Placement, offers: PlatformOffers) -> Sequence[PoolOffer]:
    """Return the pools whose GPUs the pods may get: the named one, or all that have such; none without GPUs.

    Raises:
        RefusalError: no pool has the given name.
    """
    accelerator = asked.resources.accelerator
    if accelerator is None:
        return ()
    if asked.pool:
        return (pool_named(asked.pool, offers.pools),)
    return [pool for pool in offers.pools if _gives(accelerator, pool)]


def _gives(accelerator: Accelerator, pool: PoolOffer) -> bool:
    try:
        check_accelerator(accelerator, pool)
    except RefusalError:
        return False
    return True


def _check_pool(cuda: ImageCuda, pool: PoolOffer, otherwise: str) -> None:
    if pool.driver_version and not cuda.runs_with_driver(pool.driver_version):
        raise RefusalError(
            "pool",
            pool.name,
            f"its nodes have NVIDIA driver {pool.driver_version}, but CUDA {cuda.version} in the image needs"
            f" {cuda.least_driver} or newer",
            f"{otherwise}set gpu.driver_version of the node pool to {DEFAULT_DRIVER}, or use your own image with an"
            " older CUDA",
        )
    if pool.compute_capability and not cuda.runs_on(pool.compute_capability):
        raise RefusalError(
            "pool",
            pool.name,
            f"its GPUs have compute capability {pool.compute_capability}, but the image has kernels only for"
            f" {', '.join(cuda.kernels)}",
            f"{otherwise}use a pool with newer GPUs, or your own image with kernels for {pool.compute_capability},"
            " such as one with an older torch for CUDA 12.6",
        )
