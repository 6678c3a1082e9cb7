"""What one rank reports of a run: event log, metrics, progress for people."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from trainer.pytorch.reporting.memory import peak_bytes
from trainer.pytorch.reporting.pace import Pace
from trainer.pytorch.reporting.utilization import Utilization, utilization
from trainer.training.events import EventLog
from trainer.training.metrics import TrainingMetrics

if TYPE_CHECKING:
    from trainer.pytorch.config import TrainConfig
    from trainer.pytorch.distributed import Distributed
    from trainer.training.metrics import StepReport


class Reporter:
    """Reports of one rank.

    Attributes:
        events: the event log; its `step` lines are written here.
        metrics: what Prometheus scrapes.
    """

    def __init__(self, config: TrainConfig, distributed: Distributed) -> None:
        """Open the event log and answer scrapes, until `close`.

        Raises:
            OSError: the port of the metrics is taken, or the log cannot be opened.
        """
        self._distributed = distributed
        self._config = config
        self._utilization: Utilization | None = None
        with ExitStack() as stack:
            self.events = EventLog(config.folders.logs, job=config.run_name, rank=distributed.rank)
            stack.callback(self.events.close)
            self.metrics = TrainingMetrics(run=config.run_name, rank=distributed.rank)
            stack.callback(self.metrics.close)
            self.metrics.serve(config.metrics, local_rank=distributed.local_rank)
            self._close = stack.pop_all()

    def expect(self, total_steps: int) -> None:
        """Prepare for the steps of a run of `total_steps`."""
        if self._distributed.is_main:
            config, ranks = self._config, self._distributed.world_size
            self._utilization = utilization(config.model, config.precision, self._distributed.device, ranks=ranks)
        self._total_steps = total_steps
        self._pace = Pace(total_steps)
        self.metrics.on_memory_peak(lambda: peak_bytes(self._distributed.device))

    def on_step(self, report: StepReport) -> None:
        """Report a step that ended now."""
        self._pace.on_step(report.step)
        report = replace(
            report,
            total_steps=self._total_steps,
            seconds_left=self._pace.seconds_left(),
            mfu=self._utilization.of(report) if self._utilization else None,
        )
        self.metrics.on_step(report)
        if report.step % self._config.log_interval_steps == 0 or report.step == self._total_steps:
            self.events.write("step", **report.known(), memory_peak_bytes=peak_bytes(self._distributed.device))

    def close(self) -> None:
        """Stop answering scrapes and close the log."""
        self._close.close()
