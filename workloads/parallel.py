"""Parallelism of a training job: the degrees that the platform's trainer takes as arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from infra.descriptions import checked
from infra.errors import RefusalError
from workloads.checks import check_range
from workloads.launchers import check_once

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAXIMUM = 16_000


@checked("parallel")
@dataclass(frozen=True, kw_only=True)
class Parallel:
    """Degrees of parallelism; their product is the number of ranks."""

    replicate: int | None = None
    """Copies of the model that each see other samples. Default: as many as the ranks make, given the other degrees."""
    shard: int = 1
    """Ranks that see other samples and share one copy of parameters, gradients and optimizer state (FSDP2)."""
    tensor: int = 1
    """Ranks that compute each layer together; they are always in one worker, so on one node."""
    pipeline: int = 1
    """Ranks that each have some of the layers."""
    schedule: Literal["gpipe", "1f1b", "interleaved_1f1b"] = "1f1b"
    """Order of the passes in a pipeline; `interleaved_1f1b` gives each rank two stages, so it is idle for half as
    long."""
    microbatches: int = 1
    """Parts of a rank's share of the batch, computed one after the other. A pipeline needs at least one per stage."""

    def __post_init__(self) -> None:
        """Refuse degrees that no job can have."""
        if self.replicate is not None:
            check_range("parallel.replicate", self.replicate, 1, _MAXIMUM)
        for name in ("shard", "tensor", "pipeline", "microbatches"):
            check_range(f"parallel.{name}", getattr(self, name), 1, _MAXIMUM)
        if self.pipeline == 1:
            return
        if self.microbatches < self.pipeline:
            limit = f"fewer than the {self.pipeline} stages leave some of them idle"
            raise RefusalError("parallel.microbatches", self.microbatches, limit, f"use {4 * self.pipeline} or so")
        if self.schedule == "interleaved_1f1b" and self.microbatches % self.pipeline:
            limit = f"interleaved_1f1b needs a multiple of the {self.pipeline} stages"
            raise RefusalError("parallel.microbatches", self.microbatches, limit, f"use {4 * self.pipeline}")

    @property
    def model_ranks(self) -> int:
        """Ranks that hold one copy of the model together."""
        return self.shard * self.tensor * self.pipeline

    def arguments(self) -> tuple[str, ...]:
        """Return it as arguments of the trainer's command line."""
        return (
            *(() if self.replicate is None else (f"--data_parallel_replicate={self.replicate}",)),
            f"--data_parallel_shard={self.shard}",
            f"--tensor_parallel={self.tensor}",
            f"--pipeline_parallel={self.pipeline}",
            f"--pipeline_schedule={self.schedule}",
            f"--microbatches={self.microbatches}",
        )


def check_parallel(
    parallel: Parallel, program: Sequence[str], *, workers: int, processes_per_worker: int, minimum_workers: int | None
) -> None:
    """Refuse degrees that the ranks of a job cannot have.

    Args:
        parallel: The degrees.
        program: What torchrun runs, which gets them as arguments.
        workers: Pods that train.
        processes_per_worker: Ranks of a pod.
        minimum_workers: Fewest pods of an elastic job; None for a job of a fixed size.

    Raises:
        RefusalError: naming the degree, the ranks and what would fit.
    """
    if processes_per_worker % parallel.tensor:
        limit = f"a group would not fit evenly into the {processes_per_worker} ranks of a worker, so not on one node"
        fix = f"use one of {_divisors(processes_per_worker)}, or another processes_per_worker"
        raise RefusalError("parallel.tensor", parallel.tensor, limit, fix)
    _check_elastic(parallel, processes_per_worker, minimum_workers)
    ranks, together = workers * processes_per_worker, parallel.model_ranks
    if ranks % together:
        limit = f"shard x tensor x pipeline is {together}, which does not divide the {ranks} ranks"
        rest = parallel.tensor * parallel.pipeline
        if ranks % rest:
            fix = f"use {together} ranks, or a multiple of that"
        else:
            fix = f"use shard as one of {_divisors(ranks // rest)}"
        raise RefusalError("parallel", parallel, limit, fix)
    if parallel.replicate is not None and parallel.replicate * together != ranks:
        limit = f"needs {parallel.replicate * together} ranks, {together} per replica, but there are {ranks}"
        raise RefusalError("parallel.replicate", parallel.replicate, limit, f"use {ranks // together}, or omit it")
    check_once(program, "parallel", parallel.arguments())


def _check_elastic(parallel: Parallel, processes_per_worker: int, minimum_workers: int | None) -> None:
    if minimum_workers is None:
        return
    if parallel.replicate is not None:
        limit = "the workers of an elastic job come and go, and the copies with them"
        raise RefusalError("parallel.replicate", parallel.replicate, limit, "omit it")
    if processes_per_worker % parallel.model_ranks:
        limit = f"shard x tensor x pipeline is {parallel.model_ranks}, but any worker of an elastic job may be lost"
        fix = f"use degrees whose product divides the {processes_per_worker} ranks of a worker, or omit minimum_workers"
        raise RefusalError("parallel", parallel, limit, fix)


def _divisors(number: int) -> str:
    return ", ".join(str(n) for n in range(1, number + 1) if number % n == 0)
