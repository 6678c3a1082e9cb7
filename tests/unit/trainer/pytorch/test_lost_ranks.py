"""Two ranks of which one freezes: to the other it is like a node that vanished, no connection is closed.

Gloo waits in C++, where no Python runs, as NCCL does; it cannot be aborted, so the guard ends the process.
"""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from tests.unit.trainer.pytorch.test_torchrun import Job, arguments


@pytest.fixture
def job(data_dir, tmp_path, monkeypatch):
    """Start a long training of two ranks."""
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "1")  # the frozen rank does not answer torchrun either
    started = []

    def start(*options: object) -> Job:
        started.append(Job(*arguments(data_dir, tmp_path), "--epochs", 10_000, *options))
        started[-1].wait_for(" step step=20 ")
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
