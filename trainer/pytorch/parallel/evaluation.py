"""How good a model is whose parts are on several ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from trainer.pytorch.data.dataset import Dataset
    from trainer.pytorch.parallel.parallel_model import ParallelModel
    from trainer.pytorch.task import Task


def sharded_mean_score(model: ParallelModel, held_out: Dataset, task: Task, batch_size: int) -> float:
    """Return the mean of the task's score over all targets; collective.

    Ranks that share a model must call it equally often with equally many samples: what is missing in the last batch is
    filled up with the first samples, and not counted.

    Args:
        model: This rank's part.
        held_out: The same samples on every rank.
        task: What is scored.
        batch_size: Samples of one call over all data-parallel ranks; that of training.
    """
    layout, count = model.layout, len(held_out)
    device = next(model.module.parameters()).device
    # the sum of the scores, and how many targets it is of
    sums = torch.zeros(2, dtype=torch.float64)
    was_training = model.module.training
    model.module.eval()
    for begin in range(0, count, batch_size):
        share = torch.arange(begin, begin + batch_size).chunk(layout.degrees.data)[layout.data_rank]
        batch = held_out.batch(share % count).to(device)
        logits = model.logits(batch.inputs, batch.targets)
        if logits is not None and layout.tensor_rank == 0:
            counted = (share < count).to(device)
            targets = batch.targets[counted]
            score = task.score(logits[counted], targets)
            sums += torch.stack((score, score.new_tensor(targets.numel()))).cpu()
    model.module.train(was_training)
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()
