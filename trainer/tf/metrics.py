"""Prometheus metrics of the task that runs the steps of a TensorFlow run."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainer.training import cifar, non_finite
from trainer.training.metrics import StepReport, TrainingMetrics

if TYPE_CHECKING:
    from collections.abc import Generator

    from trainer.tf.config import RunConfig
    from trainer.tf.stop import Stop


class RunMetrics:
    """The metrics of trainer.train under the same names, as far as a TensorFlow run knows them."""

    def __init__(self, config: RunConfig, *, rank: int) -> None:
        """Answer scrapes from now on, unless the port is 0.

        Raises:
            OSError: the port is taken.
        """
        self._config = config
        self._metrics = TrainingMetrics(run=config.run_name, rank=rank)
        self._metrics.serve(config.metrics, local_rank=0)
        files = cifar.files_of(config.data_dir, "train")
        self._steps_per_epoch = max(1, sum(map(cifar.count_records, files)) // config.batch_size)
        self._step = 0
        self._moved = time.monotonic()

    def begin(self, step: int, *, saved_at: float | None) -> None:
        """Take over where the run begins or resumes, and when its newest checkpoint was saved, Unix time."""
        met = non_finite.count(self._config.folders.run)
        self._metrics.on_start(step=step, total_steps=self._config.steps, non_finite_losses=met)
        if saved_at is not None:
            self._metrics.on_checkpoint_found(saved_at)
        self._step, self._moved = step, time.monotonic()

    def on_progress(self, step: int, loss: float | None = None) -> None:
        """Take note that so many steps are done by now; those since the last time share the time between."""
        now = time.monotonic()
        done = step - self._step
        for each in range(self._step + 1, step + 1):
            self._metrics.on_step(
                StepReport(
                    step=each,
                    epoch=each // self._steps_per_epoch,
                    step_seconds=(now - self._moved) / done,
                    samples=self._config.batch_size,
                    loss=loss,
                    learning_rate=self._config.learning_rate,
                )
            )
        if done > 0:
            self._step, self._moved = step, now

    def on_loss(self, loss: float) -> None:
        """Take over the mean loss of the steps done last."""
        self._metrics.on_loss(loss)

    @contextmanager
    def saving(self) -> Generator[None]:
        """Measure a save; it is part of no step."""
        begin = time.monotonic()
        yield
        seconds = time.monotonic() - begin
        self._metrics.on_checkpoint(seconds)
        self._moved += seconds

    def finish(self, stop: Stop) -> None:
        """Wait until the last values of a finished run were read, as far as the command line says."""
        self._metrics.finish(stop_requested=lambda: stop.requested)
