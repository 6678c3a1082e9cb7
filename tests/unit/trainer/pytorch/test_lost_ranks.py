"""Two ranks of which one freezes: to the other it is like a node that vanished, no connection is closed.

Gloo waits in C++, where no Python runs, as NCCL does; it cannot be aborted, so the guard ends the process.
"""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import ExitStack

import pytest

from tests.unit.trainer.pytorch.test_torchrun import Heard, arguments

HANG_IN_FORWARD = "tests.unit.trainer.pytorch.hang_in_forward"


@pytest.fixture
def job(ranks_of, data_dir, tmp_path):
    """Start a long training of two ranks."""
    with ExitStack() as running:

        def start(*options: object, until: str = " step step=20 ", program: str = "trainer.train") -> list[Heard]:
            module, *own = program.split()
            words = (*own, *arguments(data_dir, tmp_path), "--epochs", 10_000, *options)
            ranks = [Heard(process, process.stdout) for process in running.enter_context(ranks_of(module, 2, *words))]
            ranks[0].wait_for(until)
            return ranks

        yield start


def test_frozen_rank_is_noticed_long_before_the_limit_of_a_step(job, tmp_path):
    waiting, frozen = job("--peer_timeout_seconds", 3, "--train_timeout_seconds", 600)
    os.kill(frozen.process.pid, signal.SIGSTOP)
    frozen_at = time.monotonic()
    assert waiting.wait() != 0
    assert time.monotonic() - frozen_at < 300, "the limit of a step is 600 s"
    assert "rank 1 gave no sign of life for 3 s; aborting the communicators" in waiting.output
    assert "ending the process" in waiting.output
    # which collective they were in is on the volume, not in the pod's /tmp
    folder = tmp_path / "output/r1/flight-recorder"
    assert (folder / "rank-0").stat().st_size > 1000
    stacks = (folder / "stacks-rank-0").read_text()
    # all threads: the one that wrote it, and the main one in its loop
    assert "in dump_stacks" in stacks
    assert re.search(r" in _train$", stacks, re.MULTILINE)
    assert re.search(r" in _train$", waiting.output, re.MULTILINE)


def test_sigterm_ends_a_rank_that_waits_for_a_frozen_one(job):
    more = ("--peer_timeout_seconds", 0, "--stop_timeout_seconds", 2, "--train_timeout_seconds", 600)
    waiting, frozen = job(*more)
    os.kill(frozen.process.pid, signal.SIGSTOP)
    time.sleep(2)  # rank 0 is in the next all-reduce by now
    waiting.process.terminate()
    asked_at = time.monotonic()
    assert waiting.wait() != 0
    assert time.monotonic() - asked_at < 300, "the limit of a step is 600 s"
    assert "asked to stop, and the step was not done 2 s later" in waiting.output


def test_a_rank_that_waits_for_one_that_hangs_leaves_its_stacks_and_collectives(job, tmp_path):
    waiting, hanging = job("--train_timeout_seconds", 5, until=" step step=9 ", program=f"{HANG_IN_FORWARD} 1 10")
    assert waiting.wait() != 0
    assert hanging.wait() != 0  # its guard needs 5 s longer than gloo
    # the first of the two collectives that were waiting, or the second one
    assert re.search(r"or it hangs: (Timed out waiting 5000ms|Application timeout)", waiting.output)
    folder = tmp_path / "output/r1/flight-recorder"
    assert (folder / "rank-0").stat().st_size > 1000
    of_waiting, of_hanging = ((folder / f"stacks-rank-{rank}").read_text() for rank in range(2))
    # not where the error was handled: where it waited
    assert "Where this thread waited (most recent call last):" in of_waiting
    assert re.search(r", in train_step$", of_waiting, re.MULTILINE)
    assert "Where this thread waited (most recent call last):" in waiting.output
    assert re.search(r"hang_in_forward\.py.* in hang$", of_hanging, re.MULTILINE)
