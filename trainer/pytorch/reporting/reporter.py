"""The reporter of a rank: event log, metrics, TensorBoard's curves, progress for people, a profile."""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainer.common.validation import SettingsError
from trainer.pytorch.reporting.memory import peak_bytes
from trainer.pytorch.reporting.profiler import StepProfiler
from trainer.pytorch.reporting.stragglers import Stragglers
from trainer.pytorch.reporting.tensorboard import EventFile
from trainer.pytorch.reporting.utilization import Utilization, utilization
from trainer.training.events import EventLog
from trainer.training.metrics import TrainingMetrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trainer.pytorch.distributed import Distributed
    from trainer.pytorch.models.model_config import ModelConfig
    from trainer.pytorch.reporting.config import ReportConfig
    from trainer.pytorch.reporting.stragglers import Slowest
    from trainer.training.metrics import MetricsConfig, StepReport

_RECENT_STEPS = 200


class Pace:
    """The times at which the latest steps ended.

    The first step of a process is where the time begins: what comes before it, such as compiling and meeting the other
    ranks, does not happen again.
    """

    def __init__(self, total_steps: int) -> None:
        self._total_steps = total_steps
        self._ends: deque[tuple[int, float]] = deque(maxlen=_RECENT_STEPS)

    def on_step(self, step: int) -> None:
        """Take note that a step ends now."""
        self._ends.append((step, time.monotonic()))

    def seconds_left(self) -> float | None:
        """Return the time to the last step at the pace of the latest ones; None before the second step."""
        if not self._ends:
            return None
        (first, begin), (latest, end) = self._ends[0], self._ends[-1]
        if latest == first:
            return None
        return (end - begin) / (latest - first) * (self._total_steps - latest)


logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ReportedRun:
    """The run as reports describe it, and their destinations."""

    name: str
    logs: Path
    """Folder of the event logs, of TensorBoard's files and of the profiler's traces."""
    metrics: MetricsConfig
    log_interval_steps: int
    """Write the numbers of a step to the event log after every so many steps."""
    model: ModelConfig


class Reporter:
    """Reports of one rank.

    Attributes:
        events: the event log; its `step` lines are written here.
        metrics: what Prometheus scrapes.
    """

    def __init__(self, distributed: Distributed, config: ReportConfig, run: ReportedRun) -> None:
        """Open the event log and answer scrapes, until `close`.

        Raises:
            SettingsError: the port of the metrics is taken.
            OSError: the log cannot be opened.
        """
        self._distributed, self._config, self._run = distributed, config, run
        self._utilization: Utilization | None = None
        self._stragglers = Stragglers(config.stragglers, distributed)
        self._profiler = StepProfiler(config.profile, rank=distributed.rank, device=distributed.device, folder=run.logs)
        self._step = 0
        with ExitStack() as stack:
            self.events = EventLog(run.logs, job=run.name, rank=distributed.rank)
            stack.callback(self.events.close)
            self.metrics = TrainingMetrics(run=run.name, rank=distributed.rank)
            stack.callback(self.metrics.close)
            self._serve_metrics()
            self._event_file = EventFile(run.logs) if distributed.is_main else None
            if self._event_file:
                stack.callback(self._event_file.close)
            stack.callback(lambda: self._profiler.finish(self._step, self.events))
            self._close = stack.pop_all()

    def _serve_metrics(self) -> None:
        config, local_rank = self._run.metrics, self._distributed.local_rank
        try:
            self.metrics.serve(config, local_rank=local_rank)
        except OSError as error:
            address = f"{config.metrics_host}:{config.metrics_port + local_rank}"
            fix = "Fix: another --metrics_port, or 0 for no metrics"
            raise SettingsError(f"metrics_port={config.metrics_port}: {address}: {error.strerror}. {fix}") from error

    def expect(self, total_steps: int, warnings: Sequence[str]) -> None:
        """Prepare for the steps of a run of `total_steps`, and log `warnings` about them."""
        device = self._distributed.device
        if self._distributed.is_main:
            for warning in warnings:
                logger.warning("%s", warning)
            ranks = self._distributed.world_size
            self._utilization = utilization(self._run.model, device, ranks=ranks)
        self._total_steps = total_steps
        self._pace = Pace(total_steps)
        self.metrics.on_memory_peak(lambda: peak_bytes(device))

    def begin(self, *, step: int, non_finite_losses: int) -> None:
        """Take over what earlier processes of the run did; see `TrainingMetrics.on_start`."""
        self.metrics.on_start(step=step, total_steps=self._total_steps, non_finite_losses=non_finite_losses)
        if self._event_file:
            self._event_file.begin_at(step + 1)

    def on_step(self, report: StepReport) -> None:
        """Report a step that ended now; collective from time to time, so every rank reports every step."""
        self._pace.on_step(report.step)
        report = replace(
            report,
            total_steps=self._total_steps,
            seconds_left=self._pace.seconds_left(),
            mfu=self._utilization.of(report) if self._utilization else None,
        )
        self.metrics.on_step(report)
        if report.step % self._run.log_interval_steps == 0 or report.step == self._total_steps:
            self.events.write("step", **report.known(), memory_peak_bytes=peak_bytes(self._distributed.device))
            if self._event_file:
                self._event_file.write(report.step, _scalars(report))
        self._step = report.step
        self._profiler.on_step(report.step, self.events)
        slowest = self._stragglers.on_step(report)
        if slowest is not None and self._distributed.is_main:
            self._report_slowest(report.step, slowest)

    def writes_around(self, step: int) -> bool:
        """Whether some rank may write a file during this step for which the others wait; the same on every rank."""
        return self._config.profile.writes_around(step)

    def on_evaluation(self, step: int, scores: Mapping[str, float]) -> None:
        """Report how good the model is after a step, by the names of `Task.scores`."""
        self.metrics.on_evaluation(scores)
        self.events.write("evaluated", step=step, **of_evaluation(scores))
        if self._event_file:
            self._event_file.write(step, {f"test/{name}": score for name, score in scores.items()})

    def on_damaged_sample(self, step: int, problem: str, *, left_out: int, most: int) -> None:
        """Report a sample that cannot be read and is left out; over all ranks `left_out` are, of at most `most`."""
        self.metrics.on_damaged_sample()
        self.events.write("sample_left_out", step=step, left_out=left_out, most=most, problem=problem)

    def _report_slowest(self, step: int, slowest: Slowest) -> None:
        self.metrics.on_slowest_rank(slowest.rank, slowest.ratio)
        if slowest.ratio >= self._config.stragglers.straggler_ratio:
            self.events.write("slow_rank", step=step, **slowest.fields())

    def close(self) -> None:
        """Write what the profiler has recorded of an unfinished window, stop answering scrapes and close the log."""
        self._close.close()


def of_evaluation(scores: Mapping[str, float]) -> dict[str, float]:
    """Return scores as events have them, where `loss` is that of a step: readers take a name for one curve."""
    return {"test_loss" if name == "loss" else name: score for name, score in scores.items()}


def _scalars(report: StepReport) -> dict[str, float]:
    """Return the curves of a step, by their tags in TensorBoard."""
    names = ("loss", "learning_rate", "gradient_norm", "samples_per_second", "tokens_per_second", "mfu")
    known = report.known()
    return {f"train/{name}": known[name] for name in names if name in known}
