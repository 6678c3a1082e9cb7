"""The order of batches: the same with any number of processes that read, and after any interruption."""

from __future__ import annotations

import multiprocessing
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.waiting import wait_until
from trainer.pytorch.data import samples
from trainer.pytorch.data.batches import Batches
from trainer.pytorch.data.sampler import IndexSampler
from trainer.pytorch.data.tokens import TokensConfig
from trainer.training.digits import DataError
from trainer.training.signals import STOP_SIGNALS

CPU = torch.device("cpu")
REPOSITORY = Path(__file__).resolve().parents[5]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    samples.prepare_tokens(folder)
    return TokensConfig(data_dir=folder).open("train", (2048,))


def batches(dataset, *, workers=0, rank=0, world_size=1) -> Batches:
    sampler = IndexSampler(num_samples=len(dataset), batch_size=4, rank=rank, world_size=world_size, seed=3)
    return Batches(dataset, sampler, workers=workers, device=CPU)


def take(source: Batches, count: int) -> list[list[int]]:
    """Return the first tokens of each sample of the next batches."""
    return [next(source).inputs[:, :4].flatten().tolist() for _ in range(count)]


def test_what_workers_have_read_ahead_does_not_count_as_used(tokens):
    steps = len(tokens) // 4 + 3  # into the second epoch
    expected = take(batches(tokens), steps)
    first = batches(tokens, workers=2)
    before = torch.get_rng_state()
    assert take(first, 3) == expected[:3]
    assert torch.equal(torch.get_rng_state(), before), "dropout would draw other numbers than without workers"
    state = first.sampler.state_dict()
    assert state["offset"] == 3 * 4
    own, readers = os.getpriority(os.PRIO_PROCESS, 0), multiprocessing.active_children()
    assert len(readers) == 2
    wait_until(  # one message has several batches, so the second reader may begin only now
        lambda: min(os.getpriority(os.PRIO_PROCESS, each.pid) for each in readers) > own,
        "readers that do not make a step late for what is read for later ones",
    )
    first.close()

    alone = batches(tokens)
    alone.load_state_dict(state)
    assert take(alone, 2) == expected[3:5]

    again = batches(tokens, workers=1)
    take(again, 1)
    again.load_state_dict(alone.sampler.state_dict())
    assert take(again, steps - 5) == expected[5:]
    assert again.sampler.state_dict() == {"epoch": 1, "offset": 3 * 4, "seed": 3}
    again.close()


def test_two_ranks_continue_as_one(tokens):
    expected = take(batches(tokens), 6)
    pair = [batches(tokens, rank=rank, world_size=2) for rank in range(2)]
    of_two = [first + second for first, second in zip(*(take(rank, 3) for rank in pair), strict=True)]
    alone = batches(tokens)
    alone.load_state_dict(pair[1].sampler.state_dict())
    assert of_two + take(alone, 3) == expected


def test_a_stop_of_the_whole_group_of_processes_leaves_the_readers_to_the_rank(tokens):
    expected = take(batches(tokens), 20)
    source = batches(tokens, workers=1)
    assert take(source, 1) == expected[:1]
    [worker] = multiprocessing.active_children()
    assert os.getpgid(worker.pid) != os.getpgrp()
    server = int(Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()[1])
    for signal_ in STOP_SIGNALS:
        os.kill(server, signal_)
    assert take(source, 19) == expected[1:], "more than was read before the signals"
    worker.terminate()
    worker.join()  # as at the end of the rank, also after an error
    source.close()


KILLED_RANK = """
import multiprocessing, os, signal, sys, torch
from itertools import chain
from pathlib import Path
from trainer.pytorch.data.batches import Batches
from trainer.pytorch.data.prefetch import Prefetch
from trainer.pytorch.data.sampler import IndexSampler
from trainer.pytorch.data.tokens import TokensConfig
from trainer.pytorch.data.transfer import unpacked
if __name__ == "__main__":
    dataset = TokensConfig(data_dir=Path(sys.argv[1])).open("train", (2048,))
    sampler = IndexSampler(num_samples=len(dataset), batch_size=4, rank=0, world_size=1, seed=3)
    source = Batches(dataset, sampler, workers=1, device=torch.device("cpu"))
    loader = source._read_ahead()
    source._ahead = Prefetch(chain.from_iterable(map(unpacked, loader)))
    next(source)
    while loader._data_queue.qsize() < 2:
        pass  # until the reader has nothing to do: one that writes would notice by that
    print(multiprocessing.active_children()[0].pid, flush=True)
    sys.stdin.read()
"""


def test_readers_end_with_a_rank_that_is_killed(tokens):
    folder = str(tokens._file.path.parent)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", KILLED_RANK, folder], cwd=REPOSITORY, **pipes) as rank:
        reader = os.pidfd_open(int(rank.stdout.readline()))
        rank.kill()
        try:
            assert select.select([reader], [], [], 60)[0], "it would hold its memory for as long as the pod exists"
        finally:
            os.close(reader)


def test_what_a_worker_cannot_read_is_reported_by_the_rank(tmp_path):
    samples.prepare_tokens(tmp_path)
    file = tmp_path / "train.bin"
    dataset = TokensConfig(data_dir=tmp_path).open("train", (2048,))
    file.write_bytes(b"\xff" * file.stat().st_size)
    source = batches(dataset, workers=1)
    with pytest.raises(DataError, match=r"train\.bin: token 65535, tokens\.json says 0 to 255\. Fix: ") as refused:
        next(source)
    source.close()
    assert "Traceback" not in str(refused.value)
