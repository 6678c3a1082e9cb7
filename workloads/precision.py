"""Precision of a training job: the option of the platform's trainer, and the GPUs that support it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from infra.cuda import at_least_capability
from infra.errors import RefusalError
from workloads.cuda_fit import possible_pools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.offers import PlatformOffers
    from workloads.parallel import Parallel
    from workloads.placement import Placement

Precision = Literal["fp32", "bf16_autocast", "bf16"]

Float32Matmul = Literal["highest", "high", "medium"]

_BF16_CAPABILITY = "8.0"
"""From Ampere on, tensor cores compute bfloat16 (NVIDIA, "CUDA Programming Guide", table of compute capabilities). On
older GPUs torch emulates it, slower than float32."""


def precision_arguments(precision: Precision | None) -> Sequence[str]:
    """Return it as arguments of the trainer's command line."""
    return () if precision is None else (f"--precision={precision}",)


def float32_arguments(float32_matmul: Float32Matmul | None) -> Sequence[str]:
    """Return it as arguments of the trainer's command line."""
    return () if float32_matmul is None else (f"--float32_matmul={float32_matmul}",)


def check_products(float32_matmul: Float32Matmul | None, precision: Precision | None) -> None:
    """Refuse what the trainer would refuse.

    Raises:
        RefusalError: less exact products of float32 numbers where the products are in bfloat16.
    """
    if float32_matmul not in {None, "highest"} and precision not in {None, "fp32"}:
        limit = f"is for products of float32 numbers; with precision={precision!r} they are in bfloat16"
        raise RefusalError("float32_matmul", float32_matmul, limit, "omit one of them")


def check_layout(precision: Precision | None, parallel: Parallel | None) -> None:
    """Refuse what the trainer would refuse.

    Raises:
        RefusalError: autocast with a model that the ranks divide.
    """
    if precision == "bf16_autocast" and parallel is not None and parallel.model_ranks > 1:
        limit = f"is for replicas of the whole model, but {parallel.model_ranks} ranks divide it"
        raise RefusalError("precision", precision, limit, "use bf16")


def check_precision(precision: Precision | None, asked: Placement, offers: PlatformOffers) -> None:
    """Refuse bfloat16 where the pods may get GPUs that do not compute it; those that nobody knows are accepted.

    Args:
        precision: What the program computes in; None if it decides by itself.
        asked: What the pods ask for.
        offers: What the platform offers.

    Raises:
        RefusalError: naming the pool and the compute capability of its GPUs.
    """
    if precision is None or precision == "fp32":
        return
    for pool in possible_pools(asked, offers):
        capability = pool.compute_capability
        if capability and not at_least_capability(capability, _BF16_CAPABILITY):
            limit = (
                f"needs GPUs of compute capability {_BF16_CAPABILITY} (Ampere) or newer, but pool {pool.name!r}, where "
                f"the pods may run, has {capability}"
            )
            raise RefusalError("precision", precision, limit, "use fp32, or set a pool with newer GPUs")
