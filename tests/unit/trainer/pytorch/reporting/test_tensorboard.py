"""Event files, read by TensorBoard's own reader."""

from __future__ import annotations

import itertools
import json
import resource
import signal
from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.unit.trainer.pytorch.small_runs import StopAt
from trainer.pytorch.loop import Trainer
from trainer.pytorch.reporting import tensorboard
from trainer.pytorch.reporting.tensorboard import EventFile

pytestmark = pytest.mark.long


def run(config, stop_at=None) -> None:
    trainer = Trainer(config)
    try:
        trainer.train(StopAt(trainer, stop_at) if stop_at else SimpleNamespace(requested=False, arrived=lambda: False))
    finally:
        trainer.close()


def curves(folder) -> dict[str, dict[int, float]]:
    """Return values by step for each tag; a step that is there twice fails the test."""
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    reader.Reload()
    read = {}
    for tag in reader.Tags()["scalars"]:
        points = [(event.step, event.value) for event in reader.Scalars(tag)]
        read[tag] = dict(points)
        assert len(points) == len(read[tag]), f"{tag} has a step twice: {points}"
    return read


def logged(config, event: str, name: str) -> dict[int, float]:
    lines = [json.loads(line) for line in (config.folders.logs / "rank-00000.jsonl").read_text().splitlines()]
    return {line["step"]: line[name] for line in lines if line["event"] == event}


def approximately(values: dict[int, float]):
    """Return the values as float32, which event files hold."""
    return pytest.approx(values, rel=1e-6)


def test_tensorboard_reads_the_curves_of_a_run(small):
    config = small(epochs=2)
    run(config)
    read = curves(config.folders.logs)
    for name in ("loss", "learning_rate", "gradient_norm", "samples_per_second"):
        assert read.pop(f"train/{name}") == approximately(logged(config, "step", name))
    assert read == {
        "test/accuracy": approximately(logged(config, "evaluated", "accuracy")),
        "test/loss": approximately(logged(config, "evaluated", "test_loss")),
    }
    assert list(read["test/accuracy"]) == [11, 22]


def test_a_resumed_run_continues_its_curves(small, tmp_path):
    reference = small(output_dir=tmp_path / "uninterrupted", epochs=2)
    run(reference)
    config = small(epochs=2)
    for step in (3, 11, 15):
        run(config, stop_at=step)
    run(config)
    assert len(list(config.folders.logs.glob("events.out.tfevents.*"))) == 4
    for tag in ("train/loss", "train/learning_rate", "test/accuracy"):
        assert curves(config.folders.logs)[tag] == curves(reference.folders.logs)[tag]


def test_steps_that_are_done_again_are_there_once(tmp_path):
    killed = EventFile(tmp_path)
    for step in (1, 2, 3, 4, 5):
        killed.write(step, {"train/loss": 10.0 + step})
    killed.close()
    resumed = EventFile(tmp_path)
    resumed.begin_at(3)
    # reports less often than before: what is left of step 3 is not of this course of the run
    for step in (4, 6):
        resumed.write(step, {"train/loss": 20.0 + step})
    resumed.close()
    assert curves(tmp_path) == {"train/loss": {1: 11.0, 2: 12.0, 4: 24.0, 6: 26.0}}


def test_a_log_folder_of_ones_own_has_the_files(small, tmp_path):
    config = small(log_dir=tmp_path / "elsewhere")
    run(config)
    assert "train/loss" in curves(tmp_path / "elsewhere")
    assert not (config.folders.run / "logs").exists()


def test_values_reach_the_disk_after_seconds_and_at_the_end(tmp_path, monkeypatch):
    now = itertools.count(1000, 4)
    monkeypatch.setattr(tensorboard.time, "monotonic", lambda: float(next(now)))
    file = EventFile(tmp_path)
    seen = []
    for step in range(1, 8):
        file.write(step, {"train/loss": 1.0})
        seen.append(len(curves(tmp_path).get("train/loss", {})))
    file.close()
    assert seen == [0, 0, 3, 3, 3, 6, 6]
    assert len(curves(tmp_path)["train/loss"]) == 7


@pytest.fixture
def file_limit():
    """Return what sets the largest size of a file; writing beyond it fails."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size or limits[0], limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_costs_values_and_later_ones_are_read(tmp_path, monkeypatch, caplog, file_limit):
    monkeypatch.setattr(tensorboard, "_SYNC_SECONDS", 0.0)
    file = EventFile(tmp_path)
    file.write(1, {"train/loss": 1.0})
    [first] = tmp_path.iterdir()
    # in the middle of the next record
    file_limit(first.stat().st_size + 7)
    file.write(2, {"train/loss": 2.0})
    assert "TensorBoard's values of step 2 not written: " in caplog.text
    file_limit(None)
    file.write(3, {"train/loss": 3.0})
    file.close()
    assert curves(tmp_path) == {"train/loss": {1: 1.0, 3: 3.0}}


def test_a_folder_that_is_gone_ends_no_training(tmp_path, caplog):
    file = EventFile(tmp_path / "gone")
    file.write(1, {"train/loss": 1.0})
    file.close()
    assert "TensorBoard's values of step 1 not written" in caplog.text
