from __future__ import annotations

import errno
import json
import logging
import os
import socket
from datetime import datetime
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from trainer.events import EventLog, Heartbeat
from trainer.metrics import MetricsConfig, StepReport, TrainingMetrics

REPORT = StepReport(
    step=5,
    epoch=1,
    loss=0.5,
    gradient_norm=2.0,
    learning_rate=0.1,
    step_seconds=0.25,
    data_wait_seconds=0.05,
    samples=64,
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_events_carry_job_rank_step_and_go_on_after_a_restart(tmp_path, monkeypatch):
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


def test_only_rank_0_speaks_to_people(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="trainer")
    for rank in (0, 1):
        log = EventLog(tmp_path, job="r1", rank=rank)
        log.write("evaluated", step=9, accuracy=0.98765)
        log.close()
    assert caplog.messages == ["evaluated step=9 accuracy=0.9877"]


def test_a_full_disk_costs_the_event_but_not_the_run(tmp_path, caplog):
    log = EventLog(tmp_path, job="r1", rank=1)
    log._file.close()
    log._file = open("/dev/full", "ab", buffering=0)  # noqa: PTH123, SIM115
    log.write("step", step=1)
    log.close()
    assert os.strerror(errno.ENOSPC) in caplog.text


def test_heartbeat_moves_with_progress_but_not_with_every_step(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    heartbeat = Heartbeat(tmp_path, rank=0)
    heartbeat.beat()
    file = tmp_path / "heartbeat-rank-00000"
    os.utime(file, (1, 1))
    now = 100.5
    heartbeat.beat()
    assert file.stat().st_mtime == 1
    now = 101.5
    heartbeat.beat()
    assert file.stat().st_mtime > 1


def test_scrape_returns_what_the_steps_measured():
    port = free_port()
    metrics = TrainingMetrics(run="r1", rank=1)
    metrics.serve(MetricsConfig(metrics_port=port - 1, metrics_host="127.0.0.1"), local_rank=1)
    try:
        metrics.on_step(REPORT)
        metrics.on_checkpoint(1.5)
        metrics.on_checkpoint_failure()
        metrics.on_test_accuracy(0.99)
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
        f"athanor_training_checkpoint_seconds_sum{labels} 1.5",
        f"athanor_training_checkpoint_failures_total{labels} 1.0",
        f"athanor_training_test_accuracy{labels} 0.99",
    ):
        assert line in text
    assert f"athanor_training_checkpoint_age_seconds{labels} " in text
    with pytest.raises(URLError):
        urlopen(f"http://127.0.0.1:{port}/metrics")


def test_no_checkpoint_and_no_accuracy_until_there_is_one():
    registry = TrainingMetrics(run="r1", rank=0).registry
    labels = {"run": "r1", "rank": "0"}
    assert registry.get_sample_value("athanor_training_checkpoint_age_seconds", labels) is None
    assert registry.get_sample_value("athanor_training_checkpoint_timestamp_seconds", labels) is None
    assert registry.get_sample_value("athanor_training_test_accuracy", labels) is None


def test_port_zero_serves_nothing():
    metrics = TrainingMetrics(run="r1", rank=0)
    metrics.serve(MetricsConfig(), local_rank=0)
    assert metrics._server is None
    metrics.close()
