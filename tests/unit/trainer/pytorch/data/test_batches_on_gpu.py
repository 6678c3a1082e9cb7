"""Batches on their way to a GPU, with a stand-in for CUDA: what is copied when, and who waits for whom."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
import torch

from trainer.pytorch.data.batches import Batches
from trainer.pytorch.data.dataset import Batch, InMemoryDataset
from trainer.training.digits import DataError

GPU = torch.device("cuda", 1)


class Numbered:
    """A batch that notes what becomes of it."""

    damaged = ()

    def __init__(self, number: int, cuda) -> None:
        self.number, self._cuda = number, cuda
        self.inputs = SimpleNamespace(device=GPU, record_stream=self._used_in)
        self.tensors = (self.inputs, self.inputs)

    def to(self, device):
        assert device == GPU
        self._cuda.done.append(f"copy {self.number} in {self._cuda.stream}")
        return self

    def _used_in(self, stream) -> None:
        self._cuda.done.append(f"keep {self.number} for {stream.name}")


@pytest.fixture
def cuda(monkeypatch):
    """Notes in `done` what is asked of torch.cuda; `stream` is the name of the current stream."""
    made = SimpleNamespace(done=[], stream="training")

    class Stream:
        def __init__(self, _device=None) -> None:
            self.name = "copies"

        def record_event(self) -> str:
            return made.done[-1].removesuffix(" in copies")

    @contextlib.contextmanager
    def use(stream):
        made.stream = stream.name
        yield
        made.stream = "training"

    training = SimpleNamespace(
        name="training", wait_event=lambda event: made.done.append(f"training waits for {event}")
    )
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", use)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: training)
    return made


def batches(cuda, *read) -> Batches:
    made = Batches(SimpleNamespace(), iter([torch.tensor([0])] * 9), workers=1, device=GPU)  # pyright: ignore[reportArgumentType]
    waiting = [*read]

    def take(_seconds):
        if waiting and isinstance(waiting[0], Exception):
            raise waiting[0]
        return Numbered(waiting.pop(0), cuda) if waiting else None

    made._ahead = SimpleNamespace(take=take)  # pyright: ignore[reportAttributeAccessIssue]
    return made


def test_the_next_batch_is_copied_while_a_step_computes(cuda):
    source = batches(cuda, 0, 1, 2)
    assert next(source).number == 0
    keeps = ["keep {0} for training"] * 2
    assert cuda.done == [
        *("copy 0 in copies", "training waits for copy 0", *(each.format(0) for each in keeps)),
        "copy 1 in copies",
    ]
    cuda.done.clear()
    assert next(source).number == 1
    assert cuda.done == [
        *("training waits for copy 1", *(each.format(1) for each in keeps)),
        "copy 2 in copies",
    ]


def test_the_error_of_a_later_batch_does_not_cost_the_one_that_is_there(cuda):
    source = batches(cuda, 0, DataError("damaged"))
    assert next(source).number == 0
    with pytest.raises(DataError, match="damaged"):
        next(source)


def test_what_was_copied_ahead_is_forgotten_with_the_position(cuda):
    source = batches(cuda, 0, 1)
    next(source)
    source._ahead.close = lambda: None  # pyright: ignore[reportOptionalMemberAccess]
    source.close()
    assert source._next is None


def test_bytes_become_numbers_on_the_device():
    values = torch.tensor([[0, 51, 255]], dtype=torch.uint8)
    moved = Batch(inputs=values, targets=torch.tensor([1])).to(torch.device("cpu"))
    assert moved.inputs.tolist() == [[0, pytest.approx(0.2), 1]]
    meta = Batch(inputs=values, targets=torch.tensor([1])).to(torch.device("meta"))
    assert (meta.inputs.dtype, meta.inputs.device.type) == (torch.float32, "meta")


def test_the_numbers_of_samples_on_a_gpu_are_pinned(monkeypatch):
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: (pinned.append(self.tolist()), self)[1])
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *_, **__: self)
    samples = InMemoryDataset(torch.rand(4, 2), torch.arange(4), classes=4)
    on_gpu = samples.on(GPU)
    values = on_gpu._inputs
    on_gpu._inputs = OnGpu(values)
    assert on_gpu.batch(torch.tensor([2, 0])).targets.tolist() == [2, 0]
    assert pinned == [[2, 0]]


class OnGpu:
    device = GPU

    def __init__(self, values) -> None:
        self._values = values

    def __getitem__(self, indices):
        return self._values[indices]
