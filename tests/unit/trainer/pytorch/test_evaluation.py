from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from trainer.pytorch.data import Batch
from trainer.pytorch.evaluation import accuracy
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_evaluation_counts_every_sample_once(world_size):
    images = torch.rand(10, 1, 8, 8)
    model = DigitsCnnConfig(width=4).build()
    labels = model.eval()(images).argmax(dim=1)
    labels[:3] += 1  # three of ten are wrong
    model.train()
    counts = []

    def count(correct):
        counts.append(correct.item())

    for rank in range(world_size):
        distributed = SimpleNamespace(rank=rank, world_size=world_size, sum=count)
        accuracy(model, Batch(images=images, labels=labels), distributed)
    assert sum(counts) == 7
    assert model.training
