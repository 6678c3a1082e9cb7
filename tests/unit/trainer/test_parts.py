"""Small parts: CPU share, files, model, learning rate, evaluation, signals."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from trainer import cpu
from trainer.data import Batch
from trainer.distributed import MainRankError
from trainer.evaluation import accuracy
from trainer.files import write_atomically
from trainer.folders import FolderError, RunFolders
from trainer.model import ModelConfig
from trainer.optimizer import OptimizerConfig
from trainer.signals import StopRequest


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 4),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu.max": "6400000 100000\n"}, 4),
        ({}, 4),
    ],
)
def test_usable_cores_are_the_containers_not_the_nodes(tmp_path, monkeypatch, files, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3})
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu.usable_cores(tmp_path) == cores


@pytest.mark.parametrize(("variable", "threads"), [("3", 3), ("", 2), ("0", 2), ("nonsense", 2)])
def test_threads_are_what_the_user_says_or_a_fair_share(tmp_path, monkeypatch, variable, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3})
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert cpu.threads_per_process(2, tmp_path) == threads


def test_failed_write_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch):
    file = tmp_path / "file"
    write_atomically(file, b"old")

    def fail(_descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_model_answers_each_sample_alike_in_any_batch():
    model = ModelConfig(width=8).build().eval()
    images = torch.rand(5, 1, 8, 8)
    together = model(images)
    assert together.shape == (5, 10)
    torch.testing.assert_close(torch.cat([model(image[None]) for image in images]), together)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 6}, "width=6: must be a multiple of 4"),
        ({"width": 0}, "width=0: must be at least 4"),
        ({"dropout": 1.0}, "dropout=1.0: must be from 0.0 to 0.99"),
    ],
)
def test_model_refuses_impossible_sizes(arguments, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**arguments)


def test_learning_rate_rises_then_falls_to_zero():
    config = OptimizerConfig(learning_rate=1.0, warmup_steps=10)
    rates = [config.learning_rate_at(step, 110) for step in range(111)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[60] == pytest.approx(0.5)
    assert rates[110] == pytest.approx(0.0)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_learning_rate_without_warm_up_begins_at_the_top():
    assert OptimizerConfig(learning_rate=1.0, warmup_steps=0).learning_rate_at(0, 10) == 1.0


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_evaluation_counts_every_sample_once(world_size):
    images = torch.rand(10, 1, 8, 8)
    model = ModelConfig(width=4).build()
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


def test_output_folder_that_is_not_shared_is_refused(tmp_path):
    on_another_volume = SimpleNamespace(
        rank=1, is_main=False, on_main=lambda _work: ".written-elsewhere", gather=lambda problem: ["", problem]
    )
    folders = RunFolders(run=tmp_path / "r", models=tmp_path / "m", logs=tmp_path / "l", work=tmp_path / "w")
    with pytest.raises(FolderError, match=r"output_dir: rank 1 does not see .* Fix: one ReadWriteMany volume"):
        folders.create(on_another_volume)


def test_failure_of_rank_0_is_raised_by_the_others_instead_of_waiting(alone, monkeypatch):
    def broadcast(answer, **_):
        answer[0] = (None, "OSError: disk full")

    monkeypatch.setattr(dist, "broadcast_object_list", broadcast)
    alone.rank = 1
    with pytest.raises(MainRankError, match="OSError: disk full"):
        alone.on_main(lambda: pytest.fail("only rank 0 does the work"))


def test_failure_of_rank_0_is_its_own_exception_there(alone):
    with pytest.raises(ZeroDivisionError):
        alone.on_main(lambda: 1 / 0)
    assert alone.on_main(lambda: 7) == 7


def test_stop_signals_are_remembered_and_handlers_put_back():
    before = signal.getsignal(signal.SIGTERM)
    stop = StopRequest()
    assert not stop.requested
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.requested
    stop.close()
    assert signal.getsignal(signal.SIGTERM) is before
