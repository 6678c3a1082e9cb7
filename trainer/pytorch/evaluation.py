"""How good a model is on samples that training has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import nn

    from trainer.pytorch.data import Batch
    from trainer.pytorch.distributed import Distributed

_SAMPLES_PER_CALL = 1024


def accuracy(model: nn.Module, samples: Batch, distributed: Distributed) -> float:
    """Return the share of samples classified correctly, 0 to 1; every rank counts its own part of them.

    Each sample is counted by exactly one rank, also where the ranks do not divide the samples evenly.
    `model` is the bare module: through DistributedDataParallel, ranks with fewer batches would wait forever.
    """
    images = samples.images[distributed.rank :: distributed.world_size]
    labels = samples.labels[distributed.rank :: distributed.world_size]
    correct = torch.zeros((), dtype=torch.int64)
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for begin in range(0, len(labels), _SAMPLES_PER_CALL):
            part = slice(begin, begin + _SAMPLES_PER_CALL)
            correct += (model(images[part]).argmax(dim=1) == labels[part]).sum().cpu()
    model.train(was_training)
    distributed.sum(correct)
    return correct.item() / len(samples.labels)
