"""Two ranks of which one freezes: to the other it is like a node that vanished, no connection is closed.

Gloo waits in C++, where no Python runs, as NCCL does; it cannot be aborted, so the guard ends the process.
"""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainer.pytorch.test_torchrun import Job, arguments

HANG_IN_FORWARD = Path(__file__).with_name("hang_in_forward.py")


@pytest.fixture
def job(data_dir, tmp_path, monkeypatch):
    """Start a long training of two ranks."""
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "1")  # the frozen rank does not answer torchrun either
    started = []

    def start(*options: object, until: str = " step step=20 ", **how: Any) -> Job:
        started.append(Job(*arguments(data_dir, tmp_path), "--epochs", 10_000, *options, **how))
        started[-1].wait_for(until)
        return started[-1]

    yield start
    for running in started:
        running.end()


def _freeze(job: Job, rank: int) -> None:
    os.kill(job.worker(rank), signal.SIGSTOP)


def test_frozen_rank_is_noticed_long_before_the_limit_of_a_step(job, tmp_path):
    training = job("--peer_timeout_seconds", 3, "--train_timeout_seconds", 600)
    _freeze(training, 1)
    frozen_at = time.monotonic()
    assert training.wait() != 0
    assert time.monotonic() - frozen_at < 300, "the limit of a step is 600 s"
    assert "rank 1 gave no sign of life for 3 s; aborting the communicators" in training.output
    assert "ending the process" in training.output
    # which collective they were in is on the volume, not in the pod's /tmp
    folder = tmp_path / "output/r1/flight-recorder"
    assert (folder / "rank-0").stat().st_size > 1000
    stacks = (folder / "stacks-rank-0").read_text()
    # all threads: the one that wrote it, and the main one in its loop
    assert "in dump_stacks" in stacks
    assert re.search(r" in _train$", stacks, re.MULTILINE)
    assert re.search(r" in _train$", training.output, re.MULTILINE)


def test_sigterm_ends_a_rank_that_waits_for_a_frozen_one(job):
    more = ("--peer_timeout_seconds", 0, "--stop_timeout_seconds", 2, "--train_timeout_seconds", 600)
    training = job(*more)
    _freeze(training, 1)
    time.sleep(2)  # rank 0 is in the next all-reduce by now
    os.kill(training.worker(0), signal.SIGTERM)
    asked_at = time.monotonic()
    assert training.wait() != 0
    assert time.monotonic() - asked_at < 300, "the limit of a step is 600 s"
    assert "asked to stop, and the step was not done 2 s later" in training.output


def test_a_rank_that_waits_for_one_that_hangs_leaves_its_stacks_and_collectives(job, tmp_path, monkeypatch):
    # the other rank's guard needs 5 s longer than gloo
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "60")
    training = job("--train_timeout_seconds", 5, until=" step step=9 ", program=(HANG_IN_FORWARD, 1, 10))
    assert training.wait() != 0
    # the first of the two collectives that were waiting, or the second one
    assert re.search(r"or it hangs: (Timed out waiting 5000ms|Application timeout)", training.output)
    folder = tmp_path / "output/r1/flight-recorder"
    assert (folder / "rank-0").stat().st_size > 1000
    waiting, hanging = ((folder / f"stacks-rank-{rank}").read_text() for rank in range(2))
    # not where the error was handled: where it waited
    assert "Where this thread waited (most recent call last):" in waiting
    assert re.search(r", in train_step$", waiting, re.MULTILINE)
    assert "Where this thread waited (most recent call last):" in training.output
    assert re.search(r"hang_in_forward\.py.* in hang$", hanging, re.MULTILINE)
