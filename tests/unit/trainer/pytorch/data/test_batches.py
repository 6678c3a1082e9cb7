"""The order of batches: the same with any number of processes that read, and after any interruption."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from tests.waiting import wait_until
from trainer.pytorch.data import prefetch, readers, samples
from trainer.pytorch.data.batches import Batches
from trainer.pytorch.data.dataset import Batch, Dataset
from trainer.pytorch.data.readers import DataWorkerError
from trainer.pytorch.data.sampler import IndexSampler
from trainer.pytorch.data.tokens import TokensConfig
from trainer.pytorch.data.transfer import PIPE_BYTES
from trainer.training.digits import DataError
from trainer.training.signals import STOP_SIGNALS

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

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
import multiprocessing, sys, torch
from pathlib import Path
from trainer.pytorch.data.batches import Batches
from trainer.pytorch.data.sampler import IndexSampler
from trainer.pytorch.data.tokens import TokensConfig
if __name__ == "__main__":
    dataset = TokensConfig(data_dir=Path(sys.argv[1])).open("train", (2048,))
    sampler = IndexSampler(num_samples=len(dataset), batch_size=4, rank=0, world_size=1, seed=3)
    source = Batches(dataset, sampler, workers=1, device=torch.device("cpu"))
    next(source)
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


class Wide(Dataset):
    """Samples of 96 KiB: a message of 192 KiB is more than a pipe holds, and less than goes through shared memory."""

    sample_shape, classes = (96 * 128,), 64

    def __len__(self) -> int:
        return 64

    def batch(self, indices: torch.Tensor) -> Batch:
        return Batch(inputs=indices[:, None].expand(-1, *self.sample_shape).contiguous(), targets=indices)


def test_batches_that_are_too_large_for_a_pipe_arrive_whole():
    sampler = IndexSampler(num_samples=64, batch_size=4, rank=0, world_size=1, seed=3)
    source = Batches(Wide(), sampler, workers=2, device=CPU)
    for _ in range(6):
        batch = next(source)
        assert batch.inputs.nbytes > PIPE_BYTES
        assert batch.inputs.is_shared()
        assert torch.equal(batch.inputs, batch.targets[:, None].expand_as(batch.inputs))
    source.close()


def wide_batches() -> tuple[Batches, BaseProcess]:
    """Return batches, and their only reader, which stands in the middle of a message."""
    sampler = IndexSampler(num_samples=64, batch_size=2, rank=0, world_size=1, seed=3)
    source = Batches(Wide(), sampler, workers=1, device=CPU)
    assert len(next(source).targets) == 2
    [reader] = multiprocessing.active_children()
    channel = Path(f"/proc/{reader.pid}/wchan")
    wait_until(lambda: "pipe_write" in channel.read_text(), "a reader that is in the middle of a message")
    return source, reader


def test_a_worker_that_is_killed_within_a_message_is_named_with_the_signal():
    source, reader = wide_batches()
    os.kill(reader.pid, signal.SIGKILL)
    with pytest.raises(DataWorkerError) as lost:
        list(source)
    assert str(lost.value) == (
        f"data worker 1 of 1 (process {reader.pid}) was killed by SIGKILL, as the kernel does where memory is short. "
        "Fix: more memory for the pod, or a lower --data_workers or --batch_size"
    )
    source.close()


def test_a_worker_that_hangs_within_a_message_holds_up_neither_a_stop_nor_the_end():
    looks = []
    source, reader = wide_batches()
    os.kill(reader.pid, signal.SIGSTOP)
    source._give_up = lambda seconds: looks.append(seconds) or len(looks) > 1
    assert len(list(source)) < 64
    assert 0 < looks[0] < looks[1]
    source.close()
    assert reader.exitcode == -signal.SIGKILL


def test_a_worker_beyond_any_signal_is_left_behind(monkeypatch):
    """As one that waits for a volume in the kernel: Python waits at its end for all processes that it knows."""
    monkeypatch.setattr(readers, "_END_SECONDS", 0.01)
    source, reader = wide_batches()
    os.kill(reader.pid, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(type(reader), "kill", lambda _: None)
        patched.setattr(prefetch, "_END_SECONDS", 0.01)
        source.close()
    assert reader.is_alive()
    assert reader not in multiprocessing.active_children()
    reader.kill()
    reader.join()


def test_what_a_worker_cannot_read_is_reported_by_the_rank(tmp_path):
    samples.prepare_tokens(tmp_path)
    file = tmp_path / "train.bin"
    dataset = TokensConfig(data_dir=tmp_path).open("train", (2048,))
    file.write_bytes(b"\xff" * file.stat().st_size)
    source = batches(dataset, workers=1)
    with pytest.raises(
        DataError, match=r"train\.bin: token 65535 at \d+, tokens\.json says 0 to 255\. Fix: "
    ) as refused:
        next(source)
    source.close()
    assert "Traceback" not in str(refused.value)
