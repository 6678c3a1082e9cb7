"""The thread that ends waits: here with waits that a test ends; `test_lost_ranks.py` has real ones, in C++."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest
import torch.distributed as dist

from trainer.pytorch import guard as module
from trainer.pytorch.guard import Guard, PeersLostError, lost_connection
from trainer.pytorch.peers import PeerWatch
from trainer.training.signals import StopRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "_MARGIN_SECONDS", 0.0)


@pytest.fixture
def stop() -> Iterator[StopRequest]:
    request = StopRequest()
    yield request
    request.close()


class Collective:
    """A wait that ends when it is aborted, as one of NCCL does, with a result that means nothing."""

    def __init__(self, stop_timeout_seconds: float = 0.1) -> None:
        self._aborted = threading.Event()
        self.aborted_at_dump: bool | None = None
        self.guard = Guard(self._aborted.set, self._dump_stacks, stop_timeout_seconds=stop_timeout_seconds)

    def _dump_stacks(self) -> None:
        self.aborted_at_dump = self._aborted.is_set()

    def wait(self) -> None:
        assert self._aborted.wait(20), "nobody aborted"
        self.guard.raise_if_cut()


@pytest.fixture
def collective() -> Iterator[Collective]:
    made = Collective()
    yield made
    made.guard.close()


def test_step_that_takes_too_long_is_aborted_and_its_result_refused(collective):
    collective.guard.raise_if_cut()
    collective.guard.allow("a step", 0.1)
    with pytest.raises(PeersLostError, match=r"a step took longer than 0\.1 s: some rank hangs, or is gone"):
        collective.wait()
    assert collective.guard.has_cut
    assert collective.aborted_at_dump is False, "the stacks are those of the wait"


def test_checkpoint_may_take_longer_than_a_step(collective):
    collective.guard.allow("a step", 0.1)
    collective.guard.allow("a checkpoint", 60)
    time.sleep(0.3)
    collective.guard.raise_if_cut()


def test_stop_signal_gives_a_step_a_moment_and_a_checkpoint_all_its_time(collective, stop):
    collective.guard.allow("a checkpoint", 60)
    collective.guard.watch(stop, None)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.3)
    collective.guard.raise_if_cut()

    collective.guard.allow("a step", 60, ends_with_step=True)
    with pytest.raises(PeersLostError, match=r"asked to stop, and the step was not done 0\.1 s later"):
        collective.wait()


def test_steps_that_end_after_a_stop_signal_are_left_alone(stop):
    # Together the steps take longer than the limit, and each is far below it: a busy machine wakes a sleeper late.
    collective = Collective(stop_timeout_seconds=2)
    collective.guard.watch(stop, None)
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(12):
        collective.guard.allow("a step", 60, ends_with_step=True)
        time.sleep(0.2)
    collective.guard.raise_if_cut()
    collective.guard.close()


def test_rank_that_an_abort_does_not_bring_back_is_ended(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(module, "_RETURN_SECONDS", 0.05)
    monkeypatch.setattr(module.os, "_exit", lambda status: ended.set() if status == 75 else None)
    guard = Guard(lambda: time.sleep(60), lambda: None, stop_timeout_seconds=1)
    guard.allow("a step", 0.05)
    assert ended.wait(20)
    guard.close()


def test_dump_that_hangs_does_not_keep_the_abort_back(monkeypatch):
    monkeypatch.setattr(module, "_DUMP_SECONDS", 0.05)
    aborted, volume = threading.Event(), threading.Event()
    guard = Guard(aborted.set, volume.wait, stop_timeout_seconds=1)
    guard.allow("a step", 0.05)
    assert aborted.wait(20)
    volume.set()
    guard.close()


def test_process_alone_reports_each_wait_once_and_goes_on():
    dumped: queue.SimpleQueue[None] = queue.SimpleQueue()
    guard = Guard(None, lambda: dumped.put(None), stop_timeout_seconds=1)
    for _ in range(2):
        guard.allow("a step", 0.05)
        dumped.get(timeout=20)
        time.sleep(0.1)
        guard.raise_if_cut()
    guard.close()
    assert dumped.empty()
    assert not guard.has_cut


def test_process_alone_that_hangs_after_a_stop_signal_is_ended(stop, monkeypatch, caplog):
    ended = threading.Event()
    monkeypatch.setattr(module, "_RETURN_SECONDS", 0.05)
    monkeypatch.setattr(module.os, "_exit", lambda status: ended.set() if status == 75 else None)
    guard = Guard(None, lambda: None, stop_timeout_seconds=0.05)
    guard.watch(stop, None)
    guard.allow("a step", 60, ends_with_step=True)
    os.kill(os.getpid(), signal.SIGTERM)
    assert ended.wait(20)
    assert "the step was not done 0.05 s later: it hangs, or steps take longer" in caplog.text
    guard.close()


def test_signal_is_seen_from_another_thread_before_its_handler_runs(stop, monkeypatch):
    # as while the main thread is in C++: the handler in C has run, the one in Python has not
    monkeypatch.setattr(StopRequest, "_on_signal", lambda *_: None)
    assert not stop.arrived()
    unhandled = StopRequest()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert not unhandled.requested
    assert unhandled.arrived()
    unhandled.close()
    assert unhandled.arrived(), "the guard may ask once more"


def _watches(store: dist.Store, ranks: int, seconds: float) -> list[PeerWatch]:
    return [PeerWatch(store, rank=rank, world_size=ranks, timeout_seconds=seconds) for rank in range(ranks)]


def _eventually(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_rank_hears_of_one_that_falls_silent():
    # Long enough for a thread that a busy machine wakes late.
    watches = _watches(dist.HashStore(), 4, 3)
    time.sleep(4)
    assert [watch.lost for watch in watches] == [None] * 4

    watches[2].close()
    survivors = [watch for rank, watch in enumerate(watches) if rank != 2]
    _eventually(lambda: all(watch.lost for watch in survivors))
    assert {watch.lost for watch in survivors} == {"rank 2 gave no sign of life for 3 s"}


def test_rank_that_has_not_begun_is_not_lost():
    watch = PeerWatch(dist.HashStore(), rank=0, world_size=2, timeout_seconds=0.1)
    time.sleep(0.5)
    assert watch.lost is None
    watch.close()


def test_rank_that_freezes_before_its_first_interval_is_missed():
    store = dist.HashStore()
    frozen = PeerWatch(store, rank=1, world_size=2, timeout_seconds=3600)
    watch = PeerWatch(store, rank=0, world_size=2, timeout_seconds=0.3)
    _eventually(lambda: watch.lost)
    assert watch.lost == "rank 1 gave no sign of life for 0.3 s"
    frozen.close()


def test_store_that_is_gone_counts_as_lost():
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", server.port, is_master=False)
    watch = PeerWatch(client, rank=0, world_size=1, timeout_seconds=3)
    time.sleep(2)
    assert watch.lost is None
    del server
    _eventually(lambda: watch.lost)
    assert watch.lost.startswith("the store that the ranks met in does not answer (")


@pytest.mark.parametrize(
    ("error", "what", "waited"),
    [
        (
            (
                "[/__w/gloo/gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:14235. This is "
                "typically caused by a remote worker crashing. Check the logs of the remote worker"
            ),
            "Connection closed by peer [127.0.0.1]:14235",
            False,
        ),
        (
            "[../gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 120000ms for recv operation to complete",
            "Timed out waiting 120000ms for recv operation to complete",
            True,
        ),
        # of the collective after the one that timed out
        ("Application timeout caused pair closure", "Application timeout caused pair closure", True),
    ],
)
def test_a_lost_connection_is_said_in_one_line(error, what, waited):
    lost = lost_connection(RuntimeError(error))
    assert lost.waited is waited
    assert str(lost) == f"another rank is gone, its own log or exit status says why, or it hangs: {what}"


def test_another_error_is_not_taken_for_a_lost_connection():
    assert lost_connection(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None
    assert lost_connection(OSError("[x/gloo/transport/y.cc:1] Connection closed")) is None
