"""Evaluation of a model on samples that training has not seen."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, cast

import torch

from trainer.pytorch.data.batches import Batches
from trainer.pytorch.data.sampler import GivenBatches
from trainer.pytorch.task import count, mean_over_counted
from trainer.training.digits import DataError, refuse_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from torch import Tensor, nn

    from trainer.pytorch.data.dataset import Dataset
    from trainer.pytorch.distributed import Distributed
    from trainer.pytorch.precision import PrecisionConfig
    from trainer.pytorch.task import Task


def mean_score(  # noqa: PLR0913  the caller's five, and how
    model: nn.Module,
    held_out: Dataset,
    task: Task,
    distributed: Distributed,
    go_on: Callable[[], bool],
    *,
    samples_per_call: int,
    precision: PrecisionConfig,
    read: Callable[..., Batches[GivenBatches]] = Batches[GivenBatches],
) -> tuple[float, ...] | None:
    """Return the means of the task's figures over all counted targets; every rank computes its own part of the samples.

    Each sample is used by exactly one rank, also where the ranks do not divide the samples evenly.

    Args:
        model: The bare module: through DistributedDataParallel, ranks with fewer batches would wait forever.
        held_out: The same samples on every rank.
        task: What is scored.
        distributed: The ranks.
        go_on: Whether to compute another batch; collective: every rank calls it before each, equally often.
        samples_per_call: Most samples of a forward pass.
        precision: In which numbers it computes: those of training, which the device is fast with.
        read: Returns the batches of a data set, a sampler and a device.

    Returns:
        The same on every rank; None where it was broken off.

    Raises:
        DataError: a target is unknown, or none is counted.
    """
    own = torch.arange(distributed.rank, len(held_out), distributed.world_size)
    most = -(-len(held_out) // distributed.world_size)
    parts = [own[begin : begin + samples_per_call] for begin in range(0, most, samples_per_call)]
    sums = sums_of(task)
    batches = read(held_out, GivenBatches([each for each in parts if len(each)]), device=distributed.device)
    with closing(batches), evaluating(model), torch.inference_mode():
        for part in parts:
            if not go_on():
                return None
            if len(part):
                batch = next(batches, None)
                if batch is None:
                    return None
                refuse_labels(batch.targets, held_out.classes, not_counted=task.not_counted, first=None)
                score = task.score(precision.compute(model, batch.inputs), batch.targets)
                sums += with_count(score, batch.targets)
    distributed.sum(sums)
    return mean_of(sums)


def sums_of(task: Task) -> Tensor:
    """Return the initial value for sums of `with_count`: float64 [figures + 1] on the CPU, exact up to 2^53."""
    return torch.zeros(len(task.figures) + 1, dtype=torch.float64)


def with_count(score: Tensor, targets: Tensor) -> Tensor:
    """Return sums of figures, and how many targets they are of: float64 [figures + 1] on the CPU."""
    return torch.cat((score.double(), count(targets).double()[None])).cpu()


def mean_of(sums: Tensor) -> tuple[float, ...]:
    """Return the mean figures of what all ranks have added up of `with_count`.

    Raises:
        DataError: no target is counted, so nothing can be said of the model.
    """
    *totals, counted = cast("list[float]", sums.tolist())  # pyright: ignore[reportUnknownMemberType]
    if not counted:
        raise DataError("held-out samples: none of their targets is counted. Fix: samples with targets that are")
    return tuple(mean_over_counted(total, counted) for total in totals)


@contextmanager
def evaluating(module: nn.Module) -> Generator[None]:
    """Let a module compute as a trained model does, without dropout, and then continue as before."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)
