"""Prometheus metrics of one rank."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    disable_created_metrics,
    start_http_server,
)
from prometheus_client.registry import Collector

from trainer.common.validation import at_least, between

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from threading import Thread
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import Metric

FIRST_SCRAPE_SECONDS = 15.0
"""Seconds from the start of the server after which no reader is expected: Prometheus has found the pod and come
once, or there is none."""
_LOOK_SECONDS = 0.1
"""Seconds within which a stop signal ends the wait: its handler runs in the waiting thread, and the wait then
continues."""


class LastScrape(Collector):
    """A part of a registry that notices when somebody begins to read it.

    It must be registered first: then all that was set before the beginning is in what is read.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._read_before = False
        self._read = threading.Event()

    def collect(self) -> Iterable[Metric]:
        """Take note; there is nothing of its own to tell."""
        self._read_before = True
        self._read.set()
        return []

    def describe(self) -> Iterable[Metric]:
        """Name no metric; without this the registry would call `collect` when it takes it in."""
        return []

    def wait(self, seconds: float, *, stop_requested: Callable[[], bool]) -> bool:
        """Wait until somebody begins to read, or is not expected to any more.

        Args:
            seconds: Longest wait. Where nobody has read yet it ends FIRST_SCRAPE_SECONDS after the beginning, too.
            stop_requested: Whether the process is asked to end, which ends the wait.

        Returns:
            Whether somebody has begun.
        """
        self._read.clear()
        end = time.monotonic() + seconds
        if not self._read_before:
            end = min(end, self._began + FIRST_SCRAPE_SECONDS)
        while not stop_requested() and (left := end - time.monotonic()) > 0:
            if self._read.wait(min(left, _LOOK_SECONDS)):
                return True
        return False


PREFIX = "athanor_training"
PORT_VARIABLE = "ATHANOR_METRICS_PORT"
_SECONDS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, kw_only=True)
class MetricsConfig:
    """Address of the metrics for Prometheus."""

    metrics_port: int = field(default_factory=lambda: int(os.environ.get(PORT_VARIABLE, "0")))
    """HTTP port of `/metrics` for the first process of a worker, the next port for the next one; 0 serves none. Without
    it what ATHANOR_METRICS_PORT says, where a job wrote the port that Prometheus reads."""
    metrics_host: str = "0.0.0.0"  # noqa: S104  Prometheus scrapes the pod's address from outside of the pod
    """Address to listen on."""
    last_scrape_seconds: float = 30
    """Longest wait of a run that is finished until Prometheus has read its last values: without it a run shorter than
    the time between two scrapes would leave nothing to see. 0 does not wait."""

    def __post_init__(self) -> None:
        between("metrics_port", self.metrics_port, 0, 65535)
        at_least("last_scrape_seconds", self.last_scrape_seconds, 0)


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """Measurements of one training step; None for unknown ones."""

    step: int
    """Steps done, this one included."""
    epoch: int
    step_seconds: float
    samples: int
    """Over all ranks."""
    tokens: int | None = None
    """Tokens of these samples; None for data without tokens."""
    loss: float | None = None
    """Mean over all ranks."""
    gradient_norm: float | None = None
    """L2 norm before clipping."""
    learning_rate: float | None = None
    data_wait_seconds: float | None = None
    """Part of `step_seconds` in which the step waited for its batch."""
    own_seconds: float | None = None
    """Part of `step_seconds` until this rank has its batch, its loss and its own gradients: what tells a slow rank from
    those it holds up, which wait for it after that."""
    total_steps: int | None = None
    """Steps of the whole run."""
    seconds_left: float | None = None
    """Seconds until the last step, at the present pace."""
    mfu: float | None = None
    """Share of the GPUs' peak that the model's own operations used, 0 to 1; None where the peak is not known."""

    @property
    def samples_per_second(self) -> float:
        """Over all ranks, in this step."""
        return self.samples / self.step_seconds

    @property
    def tokens_per_second(self) -> float | None:
        """The same for tokens; None for data without."""
        return None if self.tokens is None else self.tokens / self.step_seconds

    def known(self) -> dict[str, Any]:
        """Return the measurements by name, the most important ones first."""
        first = {
            "step": self.step,
            "total_steps": self.total_steps,
            "loss": self.loss,
            "samples_per_second": self.samples_per_second,
            "tokens_per_second": self.tokens_per_second,
            "seconds_left": self.seconds_left,
            "mfu": self.mfu,
        }
        values = {**first, **dataclasses.asdict(self)}
        return {name: value for name, value in values.items() if value is not None}


class TrainingMetrics:
    """The metrics, each with the labels `run` and `rank` (`job` is a label that Prometheus sets itself)."""

    def __init__(self, *, run: str, rank: int) -> None:
        # When a series began is another series for each counter and histogram, and nothing reads it.
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self._last_scrape = LastScrape()
        self.registry.register(self._last_scrape)
        labels = {"run": run, "rank": str(rank)}

        def late(name: str, text: str) -> Gauge:
            """Make a gauge without a value until there is one: 0 would be a claim."""
            return Gauge(f"{PREFIX}_{name}", text, list(labels), registry=self.registry)

        def gauge(name: str, text: str) -> Gauge:
            return late(name, text).labels(**labels)

        def seconds(name: str, text: str) -> Histogram:
            return Histogram(
                f"{PREFIX}_{name}_seconds", text, list(labels), registry=self.registry, buckets=_SECONDS_BUCKETS
            ).labels(**labels)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", text, list(labels), registry=self.registry).labels(**labels)

        self._loss = late("loss", "Training loss of the last step, mean over all ranks")
        self._gradient_norm = late("gradient_norm", "L2 norm of the last gradient before clipping")
        self._learning_rate = late("learning_rate", "Learning rate of the last step")
        self._samples_per_second = late("samples_per_second", "Samples per second of the last step, of all ranks")
        self._tokens_per_second = late("tokens_per_second", "Tokens per second of the last step, of all ranks")
        self._total_steps = late("total_steps", "Steps of the whole run")
        self._seconds_left = late("seconds_left", "Time to the last step of the run, at the pace of the latest ones")
        self._mfu = late("mfu", "Share of the GPUs' peak that the model's operations used in the last step, 0 to 1")
        self._memory_peak = late(
            "memory_peak_bytes", "Most memory that the process used: allocated by torch on its GPU, else resident"
        )
        self._step = gauge("step", "Steps done")
        self._epoch = gauge("epoch", "Epochs done")
        self._last_step_time = gauge(
            "last_step_timestamp_seconds", "When the last step ended, before the first one when the process began"
        )
        # Else a job whose first step never ends would not look like a stalled one.
        self._last_step_time.set_to_current_time()
        self._non_finite = counter(
            "nonfinite_loss", "Times that this run ended because a loss or its gradient was not a finite number"
        )
        self._damaged_samples = counter("damaged_samples", "Damaged samples that this process left out, each once")
        self._samples = counter("samples", "Samples used by this process's job since it started")
        self._step_seconds = seconds("step", "Time of one step, waiting for data included")
        self._data_wait_seconds = seconds("data_wait", "Time a step waited for its batch")
        self._own_seconds = Summary(
            f"{PREFIX}_own_seconds",
            "Time of a step until the rank has computed its own gradients, without the wait for the other ranks",
            list(labels),
            registry=self.registry,
        )
        self._slowest_rank = late("slowest_rank", "Rank with the longest time of its own, at the last comparison")
        self._slowest_rank_ratio = late(
            "slowest_rank_ratio",
            "Own time per step of the slowest rank, as a multiple of the median of all",
        )
        self._checkpoint_seconds = seconds("checkpoint", "Time training stood still for one checkpoint")
        self._checkpoint_failures = counter("checkpoint_failures", "Checkpoints that could not be saved")
        self._checkpoint_time = late("checkpoint_timestamp_seconds", "When the last checkpoint was saved, Unix time")
        self._checkpoint_age = late("checkpoint_age_seconds", "Age of the last checkpoint")
        self._scores = {
            "accuracy": late("test_accuracy", "Share of held-out samples classified correctly, 0 to 1"),
            "loss": late("test_loss", "Cross-entropy of held-out samples, in nats per label or token"),
            "perplexity": late("test_perplexity", "Exponential of the cross-entropy of held-out tokens"),
        }
        self._labels = labels
        self._server: tuple[WSGIServer, Thread] | None = None
        self._last_scrape_seconds = 0.0

    def serve(self, config: MetricsConfig, *, local_rank: int) -> None:
        """Answer scrapes until `close`, unless the port is 0.

        Raises:
            OSError: the port is taken.
        """
        if config.metrics_port:
            self._server = start_http_server(
                config.metrics_port + local_rank, addr=config.metrics_host, registry=self.registry
            )
            self._last_scrape_seconds = config.last_scrape_seconds

    def on_start(self, *, step: int, total_steps: int, non_finite_losses: int) -> None:
        """Take over what is known before the first step of this process.

        Args:
            step: Steps done by earlier processes of the run.
            total_steps: Steps of the whole run.
            non_finite_losses: How often earlier processes of the run met one.
        """
        self._step.set(step)
        self._total_steps.labels(**self._labels).set(total_steps)
        self._non_finite.inc(non_finite_losses)

    def on_step(self, report: StepReport) -> None:
        """Take over the numbers of a step that ended now."""
        self._last_step_time.set_to_current_time()
        self._step.set(report.step)
        self._epoch.set(report.epoch)
        self._samples.inc(report.samples)
        self._samples_per_second.labels(**self._labels).set(report.samples_per_second)
        self._step_seconds.observe(report.step_seconds)
        if report.tokens_per_second is not None:
            self._tokens_per_second.labels(**self._labels).set(report.tokens_per_second)
        if report.seconds_left is not None:
            self._seconds_left.labels(**self._labels).set(report.seconds_left)
        if report.mfu is not None:
            self._mfu.labels(**self._labels).set(report.mfu)
        if report.loss is not None:
            self.on_loss(report.loss)
        if report.gradient_norm is not None:
            self._gradient_norm.labels(**self._labels).set(report.gradient_norm)
        if report.learning_rate is not None:
            self._learning_rate.labels(**self._labels).set(report.learning_rate)
        if report.data_wait_seconds is not None:
            self._data_wait_seconds.observe(report.data_wait_seconds)
        if report.own_seconds is not None:
            self._own_seconds.labels(**self._labels).observe(report.own_seconds)

    def on_memory_peak(self, peak_bytes: Callable[[], float]) -> None:
        """Ask `peak_bytes` at every scrape."""
        self._memory_peak.labels(**self._labels).set_function(peak_bytes)

    def on_loss(self, loss: float) -> None:
        """Take over a training loss, mean over all ranks."""
        self._loss.labels(**self._labels).set(loss)

    def on_damaged_sample(self) -> None:
        """Count a sample that cannot be read and is left out."""
        self._damaged_samples.inc()

    def on_slowest_rank(self, rank: int, ratio: float) -> None:
        """Take over the rank that the others wait for, and its own time per step divided by the median of all ranks."""
        self._slowest_rank.labels(**self._labels).set(rank)
        self._slowest_rank_ratio.labels(**self._labels).set(ratio)

    def on_checkpoint(self, seconds: float) -> None:
        """Take note of a checkpoint saved now."""
        self._checkpoint_seconds.observe(seconds)
        self.on_checkpoint_found(time.time())

    def on_checkpoint_found(self, saved_at: float) -> None:
        """Take note of when the latest checkpoint was saved, Unix time in seconds."""
        self._checkpoint_time.labels(**self._labels).set(saved_at)
        self._checkpoint_age.labels(**self._labels).set_function(lambda: time.time() - saved_at)

    def on_checkpoint_failure(self) -> None:
        """Take note of a checkpoint that could not be saved."""
        self._checkpoint_failures.inc()

    def on_evaluation(self, scores: Mapping[str, float]) -> None:
        """Take over the results of an evaluation, by the names of `Task.scores`."""
        for name, score in scores.items():
            self._scores[name].labels(**self._labels).set(score)

    def finish(self, *, stop_requested: Callable[[], bool]) -> None:
        """Wait until the last values of a finished run were read: see MetricsConfig.last_scrape_seconds."""
        self._last_scrape.wait(self._last_scrape_seconds, stop_requested=stop_requested)

    def close(self) -> None:
        """Stop answering scrapes."""
        if self._server:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join()
            self._server = None
