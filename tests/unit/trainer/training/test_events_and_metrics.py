from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
import socket
import threading
from datetime import datetime
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.tables import each_row
from trainer.training import non_finite
from trainer.training.events import EventLog
from trainer.training.metrics import MetricsConfig, StepReport, TrainingMetrics


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    """Let no test hear of the rank that another one played."""
    monkeypatch.setattr("trainer.common.log_lines._known", {})
    for name in ("ATHANOR_JOB", "RANK", "ATHANOR_LOG_FORMAT", "ATHANOR_METRICS_PORT"):
        monkeypatch.delenv(name, raising=False)


REPORT = StepReport(
    step=5,
    epoch=1,
    loss=0.5,
    gradient_norm=2.0,
    learning_rate=0.1,
    step_seconds=0.25,
    data_wait_seconds=0.05,
    own_seconds=0.2,
    samples=64,
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_events_carry_job_rank_step_and_continue_after_a_restart(tmp_path, monkeypatch):
    first = EventLog(tmp_path, job="r1", rank=3)
    first.write("started", step=0, world_size=4)
    first.close()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    second = EventLog(tmp_path, job="r1", rank=3)
    second.write("step", step=1, loss=0.1 + 0.2)
    second.close()
    lines = [json.loads(line) for line in (tmp_path / "rank-00003.jsonl").read_text().splitlines()]
    assert [(line["event"], line["job"], line["rank"], line["step"], line["attempt"]) for line in lines] == [
        ("started", "r1", 3, 0, 0),
        ("step", "r1", 3, 1, 2),
    ]
    assert lines[1]["loss"] == 0.1 + 0.2
    assert datetime.fromisoformat(lines[0]["time"]).tzinfo is not None


def test_what_is_the_same_on_every_rank_is_logged_once(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="trainer")
    for rank in (0, 1):
        log = EventLog(tmp_path, job="r1", rank=rank)
        log.write("started", step=0)
        log.write("evaluated", step=9, accuracy=0.98765)
        log.write("failed", step=9, error="no space")
        log.close()
    logged = [(record.athanor_fields["rank"], record.getMessage()) for record in caplog.records]
    assert logged == [
        (0, "started step=0"),
        (0, "evaluated step=9 accuracy=0.9877"),
        (0, "failed step=9 error=no space"),
        (1, "started step=0"),
        (1, "failed step=9 error=no space"),
    ]
    assert len((tmp_path / "rank-00001.jsonl").read_text().splitlines()) == 3


def test_a_full_disk_costs_the_event_but_not_the_run(tmp_path, caplog):
    log = EventLog(tmp_path, job="r1", rank=1)
    log._file.close()
    log._file = open("/dev/full", "ab", buffering=0)  # noqa: PTH123, SIM115
    log.write("step", step=1)
    log.close()
    assert os.strerror(errno.ENOSPC) in caplog.text


def test_scrape_returns_what_the_steps_measured():
    port = free_port()
    metrics = TrainingMetrics(run="r1", rank=1)
    metrics.serve(MetricsConfig(metrics_port=port - 1, metrics_host="127.0.0.1"), local_rank=1)
    try:
        metrics.on_start(step=4, total_steps=40, non_finite_losses=2)
        metrics.on_step(REPORT)
        metrics.on_checkpoint(1.5)
        metrics.on_checkpoint_failure()
        metrics.on_evaluation({"accuracy": 0.99})
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        metrics.close()
    labels = '{rank="1",run="r1"}'
    for line in (
        f"athanor_training_loss{labels} 0.5",
        f"athanor_training_samples_per_second{labels} 256.0",
        f"athanor_training_samples_total{labels} 64.0",
        f"athanor_training_step{labels} 5.0",
        f"athanor_training_epoch{labels} 1.0",
        f"athanor_training_step_seconds_sum{labels} 0.25",
        f"athanor_training_data_wait_seconds_sum{labels} 0.05",
        f"athanor_training_own_seconds_sum{labels} 0.2",
        f"athanor_training_own_seconds_count{labels} 1.0",
        f"athanor_training_total_steps{labels} 40.0",
        f"athanor_training_nonfinite_loss_total{labels} 2.0",
        f"athanor_training_checkpoint_seconds_sum{labels} 1.5",
        f"athanor_training_checkpoint_failures_total{labels} 1.0",
        f"athanor_training_test_accuracy{labels} 0.99",
    ):
        assert line in text
    assert f"athanor_training_checkpoint_age_seconds{labels} " in text
    assert "_created" not in text
    with pytest.raises(URLError):
        urlopen(f"http://127.0.0.1:{port}/metrics")


@pytest.fixture
def served():
    """The metrics of a run that waits long for its last scrape, and a way to read them."""
    port = free_port()
    metrics = TrainingMetrics(run="r1", rank=0)
    metrics.serve(MetricsConfig(metrics_port=port, metrics_host="127.0.0.1", last_scrape_seconds=3600), local_rank=0)

    def scrape() -> str:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return answer.read().decode()

    yield metrics, scrape
    metrics.close()


def test_a_finished_run_stays_until_its_last_values_were_read(served):
    metrics, scrape = served
    scrape()
    metrics.on_evaluation({"accuracy": 0.75})
    asked = threading.Event()

    def not_asked_to_stop() -> bool:
        asked.set()
        return False

    end = threading.Thread(target=metrics.finish, kwargs={"stop_requested": not_asked_to_stop}, daemon=True)
    end.start()
    asked.wait()
    end.join(0.3)
    assert end.is_alive(), "what was read before was not the last"
    assert 'athanor_training_test_accuracy{rank="0",run="r1"} 0.75' in scrape()
    end.join(10)
    assert not end.is_alive()


def test_a_stop_signal_ends_the_wait_for_the_last_scrape(served):
    metrics, scrape = served
    scrape()
    metrics.finish(stop_requested=lambda: True)


def test_where_nobody_ever_reads_a_run_does_not_stay(served, monkeypatch):
    metrics, _ = served
    monkeypatch.setattr("trainer.training.metrics.FIRST_SCRAPE_SECONDS", 0)
    metrics.finish(stop_requested=lambda: False)


def test_a_run_that_shows_no_metrics_does_not_stay():
    TrainingMetrics(run="r1", rank=0).finish(stop_requested=lambda: False)


def test_a_language_model_has_tokens_per_second_and_the_scores_of_its_evaluation():
    metrics = TrainingMetrics(run="r1", rank=0)
    metrics.on_step(StepReport(step=1, epoch=0, step_seconds=0.5, samples=8, tokens=512))
    metrics.on_evaluation({"loss": 2.0, "perplexity": 7.389})
    assert value(metrics, "tokens_per_second") == 1024
    assert (value(metrics, "test_loss"), value(metrics, "test_perplexity")) == (2.0, 7.389)


def test_people_read_times_and_sizes_and_programs_read_numbers(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="trainer")
    log = EventLog(tmp_path, job="r1", rank=0)
    log.write("step", step=5, seconds_left=3725.4, memory_peak_bytes=307 * 2**20, num_bytes=8)
    log.close()
    assert caplog.messages == ["step step=5 seconds_left=1:02:05 memory_peak_bytes=307MiB num_bytes=8"]
    line = json.loads(log.path.read_text())
    assert (line["seconds_left"], line["memory_peak_bytes"]) == (3725.4, 307 * 2**20)


def test_a_step_says_first_what_people_look_for_and_nothing_unknown():
    known = dataclasses.replace(REPORT, tokens=640, total_steps=40, seconds_left=8.75).known()
    assert [*known][:6] == ["step", "total_steps", "loss", "samples_per_second", "tokens_per_second", "seconds_left"]
    assert (known["samples_per_second"], known["tokens_per_second"], known["own_seconds"]) == (256, 2560, 0.2)
    assert not {"tokens_per_second", "seconds_left"} & REPORT.known().keys()


def test_progress_and_memory_are_metrics():
    metrics = TrainingMetrics(run="r1", rank=0)
    sizes = iter((100, 200))
    metrics.on_memory_peak(lambda: next(sizes))
    metrics.on_step(dataclasses.replace(REPORT, seconds_left=8.75))
    assert value(metrics, "seconds_left") == 8.75
    assert (value(metrics, "memory_peak_bytes"), value(metrics, "memory_peak_bytes")) == (100, 200)


@each_row(
    "name",
    [
        *("checkpoint_age_seconds", "checkpoint_timestamp_seconds", "test_accuracy", "loss", "gradient_norm"),
        *("tokens_per_second", "test_loss", "test_perplexity", "seconds_left", "memory_peak_bytes"),
    ],
)
def test_what_is_not_known_has_no_value(name):
    metrics = TrainingMetrics(run="r1", rank=0)
    metrics.on_step(StepReport(step=1, epoch=0, step_seconds=0.1, samples=8))
    assert value(metrics, name) is None
    assert value(metrics, "step") == 1


def value(metrics, name):
    return metrics.registry.get_sample_value(f"athanor_training_{name}", {"run": "r1", "rank": "0"})


def test_a_step_moves_the_time_by_which_a_standstill_is_seen(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    metrics = TrainingMetrics(run="r1", rank=0)
    # a first step that never ends is a standstill, too
    assert value(metrics, "last_step_timestamp_seconds") == 1000
    now = 2000.0
    assert value(metrics, "last_step_timestamp_seconds") == 1000
    metrics.on_step(REPORT)
    assert value(metrics, "last_step_timestamp_seconds") == 2000


def test_a_resumed_run_begins_where_it_was():
    metrics = TrainingMetrics(run="r1", rank=0)
    metrics.on_start(step=30, total_steps=40, non_finite_losses=0)
    assert (value(metrics, "step"), value(metrics, "total_steps")) == (30, 40)
    assert value(metrics, "nonfinite_loss_total") == 0


def test_the_port_is_the_jobs_unless_a_flag_names_another(monkeypatch):
    assert MetricsConfig().metrics_port == 0
    monkeypatch.setenv("ATHANOR_METRICS_PORT", "8012")
    assert MetricsConfig().metrics_port == 8012
    assert MetricsConfig(metrics_port=0).metrics_port == 0


def test_losses_that_are_not_finite_are_counted_over_restarts(tmp_path, caplog):
    assert non_finite.count(tmp_path) == 0
    non_finite.remember(tmp_path)
    non_finite.remember(tmp_path)
    assert non_finite.count(tmp_path) == 2
    # what ended the run must be seen, not that it could not be counted
    non_finite.remember(tmp_path / "gone")
    assert "not written" in caplog.text


def test_port_zero_serves_nothing():
    metrics = TrainingMetrics(run="r1", rank=0)
    metrics.serve(MetricsConfig(), local_rank=0)
    assert metrics._server is None
    metrics.close()
