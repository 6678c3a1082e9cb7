"""How good a model is on samples that training has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import nn

    from trainer.pytorch.data.dataset import Dataset
    from trainer.pytorch.distributed import Distributed
    from trainer.pytorch.task import Task


def mean_score(
    model: nn.Module, held_out: Dataset, task: Task, distributed: Distributed, *, samples_per_call: int
) -> float:
    """Return the mean of the task's score over all targets; every rank computes its own part of the samples.

    Each sample is used by exactly one rank, also where the ranks do not divide the samples evenly.
    `model` is the bare module: through DistributedDataParallel, ranks with fewer batches would wait forever.
    """
    own = torch.arange(distributed.rank, len(held_out), distributed.world_size)
    # the sum of the scores, and how many targets it is of; whole numbers to 2^53 are exact
    sums = torch.zeros(2, dtype=torch.float64)
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for begin in range(0, len(own), samples_per_call):
            batch = held_out.batch(own[begin : begin + samples_per_call]).to(distributed.device)
            score = task.score(model(batch.inputs), batch.targets)
            sums += torch.stack((score, score.new_tensor(batch.targets.numel()))).cpu()
    model.train(was_training)
    distributed.sum(sums)
    return (sums[0] / sums[1]).item()
