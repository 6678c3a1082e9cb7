"""The metrics of a TensorFlow run, which need no TensorFlow."""

from __future__ import annotations

import pytest

from trainer.tf.config import RunConfig
from trainer.tf.metrics import RunMetrics
from trainer.training import non_finite

pytestmark = pytest.mark.long


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until the test moves it."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def metrics(data_dir, tmp_path, clock) -> RunMetrics:
    del clock  # it must stand still before anything is measured
    config = RunConfig(data_dir=data_dir, output_dir=tmp_path, run_name="r1", steps=40, batch_size=100)
    config.folders.run.mkdir()
    non_finite.remember(config.folders.run)
    return RunMetrics(config, rank=3)


def value(metrics: RunMetrics, name: str) -> float | None:
    return metrics._metrics.registry.get_sample_value(f"athanor_training_{name}", {"run": "r1", "rank": "3"})


def test_steps_that_were_done_meanwhile_share_the_time(metrics, clock):
    metrics.begin(10, saved_at=None)
    clock[0] += 2
    metrics.on_progress(14)
    assert value(metrics, "step") == 14
    assert value(metrics, "step_seconds_count") == 4
    assert value(metrics, "step_seconds_sum") == pytest.approx(2)
    assert value(metrics, "samples_total") == 400
    assert value(metrics, "samples_per_second") == pytest.approx(200)
    assert value(metrics, "loss") is None
    metrics.on_loss(0.25)
    assert value(metrics, "loss") == 0.25


def test_nothing_done_is_not_a_step(metrics, clock):
    metrics.begin(10, saved_at=None)
    clock[0] += 2
    metrics.on_progress(10)
    assert value(metrics, "step_seconds_count") == 0
    clock[0] += 2
    metrics.on_progress(11, 0.5)
    assert value(metrics, "step_seconds_sum") == pytest.approx(4)


def test_a_save_is_measured_and_part_of_no_step(metrics, clock):
    metrics.begin(0, saved_at=None)
    assert value(metrics, "checkpoint_age_seconds") is None
    with metrics.saving():
        clock[0] += 5
    clock[0] += 1
    metrics.on_progress(1, 0.5)
    assert value(metrics, "checkpoint_seconds_sum") == 5
    assert value(metrics, "step_seconds_sum") == pytest.approx(1)
    assert value(metrics, "checkpoint_timestamp_seconds") > 0


def test_a_resumed_run_knows_what_was_before(metrics):
    metrics.begin(10, saved_at=1e9)
    assert (value(metrics, "step"), value(metrics, "total_steps")) == (10, 40)
    assert value(metrics, "checkpoint_timestamp_seconds") == 1e9
    assert value(metrics, "nonfinite_loss_total") == 1


def test_epochs_are_counted_in_whole_passes_over_the_images(metrics, clock):
    metrics.begin(0, saved_at=None)
    for step, epoch in ((13, 0), (14, 1), (28, 2)):  # 1433 images in batches of 100
        clock[0] += 1
        metrics.on_progress(step)
        assert value(metrics, "epoch") == epoch
