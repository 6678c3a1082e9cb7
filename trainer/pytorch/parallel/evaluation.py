"""How good a model is whose parts are on several ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from trainer.pytorch.data import Batch
    from trainer.pytorch.parallel.parallel_model import ParallelModel


def sharded_accuracy(model: ParallelModel, samples: Batch, batch_size: int) -> float:
    """Return the share of targets predicted correctly, 0 to 1; collective.

    Ranks that share a model must call it equally often with equally many samples: what is missing in the last batch is
    filled up with the first samples, and not counted.

    Args:
        model: This rank's part.
        samples: The same ones on every rank.
        batch_size: Samples of one call over all data-parallel ranks; that of training.
    """
    layout, count = model.layout, len(samples.labels)
    right = torch.zeros((), dtype=torch.int64)
    was_training = model.module.training
    model.module.eval()
    for begin in range(0, count, batch_size):
        share = torch.arange(begin, begin + batch_size).chunk(layout.degrees.data)[layout.data_rank]
        places = (share % count).to(samples.images.device)
        logits = model.logits(samples.images[places], samples.labels[places])
        if logits is not None and layout.tensor_rank == 0:
            hits = logits.argmax(dim=-1) == samples.labels[places]
            right += hits[share < count].sum().cpu()
    model.module.train(was_training)
    dist.all_reduce(right)
    return right.item() / samples.labels.numel()
