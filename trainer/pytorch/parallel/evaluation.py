"""How good a model is whose parts are on several ranks."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from trainer.pytorch.evaluation import evaluating, mean_of, sums_of, with_count
from trainer.pytorch.task import NOT_COUNTED
from trainer.training.digits import refuse_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.pytorch.data.dataset import Dataset
    from trainer.pytorch.parallel.parallel_model import ParallelModel
    from trainer.pytorch.task import Task


def sharded_mean_score(
    model: ParallelModel, held_out: Dataset, task: Task, batch_size: int, go_on: Callable[[], bool]
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

    Raises:
        DataError: a target is unknown, or none is counted.
    """
    layout, count = model.layout, len(held_out)
    device = next(model.module.parameters()).device
    sums = sums_of(task)
    with evaluating(model.module), ExitStack() as stack:
        stack.callback(model.reshard)
        for begin in range(0, count, batch_size):
            if not go_on():
                return None
            share = torch.arange(begin, begin + batch_size).chunk(layout.degrees.data)[layout.data_rank]
            batch = held_out.batch(share % count).to(device)
            refuse_labels(batch.targets, held_out.classes, not_counted=task.not_counted, first=None)
            targets = batch.targets.clone()  # those of a text are its inputs, one further
            targets[(share >= count).to(device)] = NOT_COUNTED
            score = model.score(batch.inputs, targets, task.score)
            if score is not None and layout.tensor_rank == 0:
                sums += with_count(score, targets)
    dist.all_reduce(sums)
    return mean_of(sums)
