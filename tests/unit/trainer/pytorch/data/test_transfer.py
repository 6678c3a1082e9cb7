"""What readers send arrives as it was read; small batches as values, several at once, large ones in shared memory."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
import torch

from trainer.pytorch.data.dataset import Batch
from trainer.pytorch.data.transfer import PIPE_BYTES, PipedBatch, batches_of_message, packed, unpacked


def batch(*shape: int) -> Batch:
    return Batch(inputs=torch.randn(shape), targets=torch.arange(shape[0]))


def test_a_small_batch_arrives_by_its_values():
    sent = batch(4, 1, 8, 8)
    [received] = unpacked(pickle.loads(pickle.dumps(packed([sent]))))
    assert torch.equal(received.inputs, sent.inputs)
    assert torch.equal(received.targets, sent.targets)
    received.inputs.add_(1)  # its memory is its own, and may be written
    assert not torch.equal(received.inputs, sent.inputs)


def test_only_what_fits_goes_through_the_pipe():
    small, large = packed([batch(64, 1, 8, 8), batch(64, PIPE_BYTES // 256)])
    assert isinstance(small, PipedBatch)
    assert isinstance(large, Batch)


@pytest.mark.parametrize(
    ("shape", "batch_size", "batches"), [((1, 8, 8), 64, 4), ((3, 32, 32), 8, 1), ((2048,), 8, 1), ((), 1, 4)]
)
def test_small_batches_share_a_message(shape, batch_size, batches):
    assert batches_of_message(SimpleNamespace(sample_shape=shape), batch_size) == batches
