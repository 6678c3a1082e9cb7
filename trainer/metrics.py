"""Prometheus metrics of one rank."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from trainer.validation import between

if TYPE_CHECKING:
    from threading import Thread
    from wsgiref.simple_server import WSGIServer

PREFIX = "athanor_training"
_SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, kw_only=True)
class MetricsConfig:
    """Where Prometheus finds the metrics."""

    metrics_port: int = 0
    """HTTP port of `/metrics` for the first process of a worker, the next port for the next one; 0 serves none."""
    metrics_host: str = "0.0.0.0"  # noqa: S104  Prometheus scrapes the pod's address from outside of the pod
    """Address to listen on."""

    def __post_init__(self) -> None:
        between("metrics_port", self.metrics_port, 0, 65535)


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """What one training step measured."""

    step: int
    """Steps done, this one included."""
    epoch: int
    loss: float
    """Mean over all ranks."""
    gradient_norm: float
    """L2 norm before clipping."""
    learning_rate: float
    step_seconds: float
    data_wait_seconds: float
    """Part of `step_seconds` in which the step waited for its batch."""
    samples: int
    """Over all ranks."""


class TrainingMetrics:
    """The metrics, each with the labels `run` and `rank` (`job` is a label that Prometheus sets itself)."""

    def __init__(self, *, run: str, rank: int) -> None:
        self.registry = CollectorRegistry()
        labels = {"run": run, "rank": str(rank)}

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{PREFIX}_{name}", text, list(labels), registry=self.registry)

        def seconds(name: str, text: str) -> Histogram:
            return Histogram(
                f"{PREFIX}_{name}_seconds", text, list(labels), registry=self.registry, buckets=_SECONDS_BUCKETS
            ).labels(**labels)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", text, list(labels), registry=self.registry).labels(**labels)

        self._loss = gauge("loss", "Training loss of the last step, mean over all ranks").labels(**labels)
        self._gradient_norm = gauge("gradient_norm", "L2 norm of the last gradient before clipping").labels(**labels)
        self._learning_rate = gauge("learning_rate", "Learning rate of the last step").labels(**labels)
        self._samples_per_second = gauge("samples_per_second", "Samples per second of the last step").labels(**labels)
        self._step = gauge("step", "Steps done").labels(**labels)
        self._epoch = gauge("epoch", "Epochs done").labels(**labels)
        self._samples = counter("samples", "Samples used by this process's job since it started")
        self._step_seconds = seconds("step", "Time of one step, waiting for data included")
        self._data_wait_seconds = seconds("data_wait", "Time a step waited for its batch")
        self._checkpoint_seconds = seconds("checkpoint", "Time training stood still for one checkpoint")
        self._checkpoint_failures = counter("checkpoint_failures", "Checkpoints that could not be saved")
        # without a value until there is one: a fresh run must not look like one with a checkpoint of 1970
        self._checkpoint_time = gauge("checkpoint_timestamp_seconds", "When the last checkpoint was saved, Unix time")
        self._checkpoint_age = gauge("checkpoint_age_seconds", "Age of the last checkpoint")
        self._test_accuracy = gauge("test_accuracy", "Share of held-out samples classified correctly, 0 to 1")
        self._labels = labels
        self._server: tuple[WSGIServer, Thread] | None = None

    def serve(self, config: MetricsConfig, *, local_rank: int) -> None:
        """Answer scrapes until `close`, unless the port is 0.

        Raises:
            OSError: the port is taken.
        """
        if config.metrics_port:
            self._server = start_http_server(
                config.metrics_port + local_rank, addr=config.metrics_host, registry=self.registry
            )

    def on_step(self, report: StepReport) -> None:
        """Take over the numbers of a step."""
        self._loss.set(report.loss)
        self._gradient_norm.set(report.gradient_norm)
        self._learning_rate.set(report.learning_rate)
        self._samples_per_second.set(report.samples / report.step_seconds)
        self._samples.inc(report.samples)
        self._step.set(report.step)
        self._epoch.set(report.epoch)
        self._step_seconds.observe(report.step_seconds)
        self._data_wait_seconds.observe(report.data_wait_seconds)

    def on_checkpoint(self, seconds: float) -> None:
        """Take note of a checkpoint saved now."""
        self._checkpoint_seconds.observe(seconds)
        self.on_checkpoint_found(time.time())

    def on_checkpoint_found(self, saved_at: float) -> None:
        """Take note of when the newest checkpoint was saved, Unix time in seconds."""
        self._checkpoint_time.labels(**self._labels).set(saved_at)
        self._checkpoint_age.labels(**self._labels).set_function(lambda: time.time() - saved_at)

    def on_checkpoint_failure(self) -> None:
        """Take note of a checkpoint that could not be saved."""
        self._checkpoint_failures.inc()

    def on_test_accuracy(self, accuracy: float) -> None:
        """Take over the result of an evaluation."""
        self._test_accuracy.labels(**self._labels).set(accuracy)

    def close(self) -> None:
        """Stop answering scrapes."""
        if self._server:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join()
            self._server = None
