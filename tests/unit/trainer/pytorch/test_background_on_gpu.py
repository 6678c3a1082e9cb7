"""The copy of a rank's state from its GPU, with a stand-in for CUDA: device, streams, and who waits for whom."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from types import SimpleNamespace

import pytest
import torch

from trainer.pytorch.checkpoints import background
from trainer.pytorch.checkpoints.background import Answer, Background

DEVICE = torch.device("cuda", 2)


class Stream:
    """Does what is queued when somebody waits for it, and not before."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.queued = []
        self.done = 0

    def queue(self, work) -> None:
        self.queued.append(work)

    def run(self, until: int | None = None) -> None:
        while self.done < (len(self.queued) if until is None else until):
            self.done += 1
            self.queued[self.done - 1]()

    def record_event(self, event=None):
        event = event or torch.cuda.Event()
        event.reach = functools.partial(self.run, len(self.queued))
        return event

    def wait_event(self, event) -> None:
        self.queue(event.reach)


class Cuda:
    """What the code under test uses of torch.cuda; a thread begins with GPU 0 and that GPU's default stream."""

    def __init__(self, monkeypatch) -> None:
        self.of_thread = threading.local()
        self.may_finish = threading.Event()
        self.training = Stream(DEVICE)
        cuda = self

        class Event:
            def __init__(self, **_options: bool) -> None:
                self.reach = None

            def record(self, stream: Stream) -> None:
                stream.record_event(self)

            def synchronize(self) -> None:
                assert cuda.may_finish.wait(60)
                self.reach()

        for name, stand_in in {
            "Stream": Stream,
            "Event": Event,
            "stream": self.use,
            "set_device": lambda device: setattr(self.of_thread, "device", device),
            "current_stream": lambda _device=None: getattr(self.of_thread, "stream", self.training),
        }.items():
            monkeypatch.setattr(torch.cuda, name, stand_in)

    @contextlib.contextmanager
    def use(self, stream: Stream):
        self.of_thread.stream = stream
        yield
        del self.of_thread.stream


class Stager:
    """Queues a copy of each value in the current stream, as torch's does with pinned memory."""

    def __init__(self, cuda: Cuda, options: dict) -> None:
        self.cuda, self.options = cuda, options
        self.device = None
        self.fails = False

    def stage(self, state: dict, *, non_blocking: bool = False) -> dict:
        assert non_blocking
        self.device = getattr(self.cuda.of_thread, "device", torch.device("cuda", 0))
        copy = {}
        torch.cuda.current_stream().queue(lambda: copy.update(state))
        if self.fails:
            raise RuntimeError("no memory to pin")
        return copy

    def close(self) -> None:
        pass


@pytest.fixture
def cuda(monkeypatch) -> Cuda:
    return Cuda(monkeypatch)


@pytest.fixture
def rank(monkeypatch, cuda):
    """Rank 2's background, without a process: what it sends is `sent`."""
    sent = []
    pipe = SimpleNamespace(send=sent.append, recv=lambda: Answer(failure=None), close=lambda: None)
    process = SimpleNamespace(start=lambda: None, kill=lambda: None, join=lambda _seconds: None)
    context = SimpleNamespace(Pipe=lambda: (pipe, pipe), Process=lambda **_: process)
    monkeypatch.setattr(background.multiprocessing, "get_context", lambda _method: context)
    monkeypatch.setattr(background, "StateDictStager", lambda **options: Stager(cuda, options))
    made = Background(
        SimpleNamespace(device=DEVICE, rank=2, world_size=1, main_host="", checkpoint_timeout_seconds=1)  # pyright: ignore[reportArgumentType]
    )
    yield SimpleNamespace(background=made, sent=sent, stager=made._stager)
    cuda.may_finish.set()
    made.close()


def test_the_copy_has_what_training_queued_before_it_and_nothing_from_after(rank, cuda):
    weights = {"weight": 0}
    cuda.training.queue(lambda: weights.update(weight=1))
    answer = rank.background.start(weights, "writer")
    rank.background.wait_for_copy()  # returns at once: it is the GPU that waits
    assert not cuda.may_finish.is_set()
    cuda.training.queue(lambda: weights.update(weight=2))
    cuda.training.run()
    assert not answer.done()
    cuda.may_finish.set()
    assert answer.result(60) == Answer(failure=None)
    assert rank.sent == [({"weight": 1}, "writer")]
    assert weights == {"weight": 2}


def test_the_thread_copies_on_the_gpu_of_its_rank_to_pinned_memory_alone(rank, cuda):
    weights = {"weight": 0}
    cuda.training.queue(lambda: weights.update(weight=1))
    cuda.may_finish.set()
    rank.background.start(weights, "writer").result(60)
    assert rank.sent[0][0] == {"weight": 1}, "it waits for training's stream, also where nobody else does"
    assert rank.stager.device == DEVICE
    assert rank.stager.options == {"pin_memory": True, "share_memory": True, "pin_memory_min_bytes": 1}


def test_a_copy_that_fails_half_way_lets_training_go_on_and_is_awaited(rank, cuda):
    rank.stager.fails = True
    cuda.may_finish.set()
    state = {"weight": 1}
    answer = rank.background.start(state, "writer").result(60)
    assert "could not be copied to /dev/shm: RuntimeError('no memory to pin')" in answer.failure
    assert not rank.background.is_usable
    rank.background.wait_for_copy()
    assert rank.background._stream.done == len(rank.background._stream.queued), "its memory may be freed from now on"


def test_the_process_that_writes_sees_no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    monkeypatch.setattr(background.signal, "signal", lambda *_: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    seen = []

    def join() -> None:
        seen.append(os.environ["CUDA_VISIBLE_DEVICES"])
        raise EOFError

    background._serve(None, SimpleNamespace(join=join))  # pyright: ignore[reportArgumentType]
    assert seen == [""]
