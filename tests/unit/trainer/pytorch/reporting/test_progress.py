"""Progress for people: the time that is left, and the memory that was used."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from trainer.pytorch.loop import Trainer
from trainer.pytorch.reporting import reporter
from trainer.pytorch.reporting.memory import peak_bytes
from trainer.pytorch.reporting.reporter import Pace


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(reporter.time, "monotonic", lambda: now.seconds)
    return now


def test_the_time_left_counts_what_lies_between_steps_but_not_the_first_one(clock):
    run = Pace(total_steps=10)
    assert run.seconds_left() is None
    clock.seconds += 500
    run.on_step(1)
    assert run.seconds_left() is None, "the first step says nothing of the others"
    for step, seconds in ((2, 1.0), (3, 5.0)):
        clock.seconds += seconds
        run.on_step(step)
    assert run.seconds_left() == 3.0 * 7


def test_only_the_latest_steps_count(clock):
    run = Pace(total_steps=1000)
    for step in range(1, 401):
        clock.seconds += 10.0 if step <= 200 else 1.0
        run.on_step(step)
    assert run.seconds_left() == pytest.approx(600)


def test_a_resumed_run_counts_its_own_steps(clock):
    run = Pace(total_steps=100)
    for step in (91, 92):
        clock.seconds += 2
        run.on_step(step)
    assert run.seconds_left() == 16


def test_the_memory_of_a_process_is_the_most_that_was_resident():
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    [kib] = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
    assert peak_bytes(torch.device("cpu")) == pytest.approx(kib * 1024, rel=0.01)


def test_the_memory_of_a_gpu_is_what_torch_allocated_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: {torch.device("cuda", 3): 12345}[device])
    assert peak_bytes(torch.device("cuda", 3)) == 12345


def test_the_steps_of_a_run_count_down_to_zero(small):
    config = small()
    trainer = Trainer(config)
    try:
        trainer.train(SimpleNamespace(requested=False, arrived=lambda: False))
        labels = {"run": "small", "rank": "0"}
        read = trainer.metrics.registry.get_sample_value
        assert read("athanor_training_memory_peak_bytes", labels) > 2**20
        assert read("athanor_training_seconds_left", labels) == 0
    finally:
        trainer.close()
    lines = [json.loads(line) for line in (config.folders.logs / "rank-00000.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["event"] == "step"]
    assert {line["total_steps"] for line in steps} == {11}
    assert "seconds_left" not in steps[0]
    assert steps[-1]["seconds_left"] == 0 < steps[1]["seconds_left"]
    assert all(line["samples_per_second"] == 128 / line["step_seconds"] for line in steps)
    assert all(line["memory_peak_bytes"] > 2**20 for line in steps)
