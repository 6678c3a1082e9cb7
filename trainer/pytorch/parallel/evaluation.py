"""Evaluation of a model whose parts are on several ranks."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from trainer.pytorch.data.batches import Batches
from trainer.pytorch.data.sampler import GivenBatches
from trainer.pytorch.evaluation import evaluating, mean_of, sums_of, with_count
from trainer.pytorch.task import NOT_COUNTED
from trainer.training.digits import refuse_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.pytorch.data.dataset import Dataset
    from trainer.pytorch.parallel.parallel_model import ParallelModel
    from trainer.pytorch.task import Task


def sharded_mean_score(  # noqa: PLR0913  the caller's five, and how to read
    model: ParallelModel,
    held_out: Dataset,
    task: Task,
    batch_size: int,
    go_on: Callable[[], bool],
    *,
    read: Callable[..., Batches[GivenBatches]] = Batches[GivenBatches],
) -> tuple[float, ...] | None:
    """Return the means of the task's figures over all counted targets, None where it was broken off; collective.

    Ranks that share a model must call it equally often with equally many samples: what is missing in the last batch is
    filled up with the first samples, and not counted.

    Args:
        model: This rank's part.
        held_out: The same samples on every rank.
        task: What is scored.
        batch_size: Samples of one call over all data-parallel ranks; that of training.
        go_on: Whether to compute another batch; called before each, and with the same answer on every rank.
        read: Returns the batches of a data set, a sampler and a device.

    Raises:
        DataError: a target is unknown, or none is counted.
    """
    layout, count = model.layout, len(held_out)
    device = next(model.module.parameters()).device
    sums = sums_of(task)
    calls = [torch.arange(begin, begin + batch_size) for begin in range(0, count, batch_size)]
    shares = [each.chunk(layout.degrees.data)[layout.data_rank] for each in calls]
    batches = read(held_out, GivenBatches([each % count for each in shares]), device=device)
    with closing(batches), evaluating(model.module), ExitStack() as stack:
        stack.callback(model.reshard)
        for share in shares:
            if not go_on():
                return None
            batch = next(batches, None)
            if batch is None:
                return None
            refuse_labels(batch.targets, held_out.classes, not_counted=task.not_counted, first=None)
            targets = batch.targets.clone()  # those of a text are its inputs, one further
            targets[(share >= count).to(device)] = NOT_COUNTED
            score = model.score(batch.inputs, targets, task.score)
            if score is not None and layout.tensor_rank == 0:
                sums += with_count(score, targets)
    dist.all_reduce(sums)
    return mean_of(sums)
