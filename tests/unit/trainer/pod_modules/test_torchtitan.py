"""torchtitan on the platform, by the interface of its release 0.3: it is not in the tests' environment.

Trainer.train() calls checkpointer.load() before the first step and checkpointer.save() after each one; a logger has
log(metrics, step) and close(); a checkpointer saves where its interval divides the step.
"""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

from tests.unit.trainer.pod_modules.programs import said


class Checkpointer:
    """As torchtitan's: `saved` outlives the program."""

    def __init__(self, trainer, saved: dict[int, float]) -> None:
        self.interval, self.saved, self.trainer, self.is_writing = 4, saved, trainer, False

    def load(self, step: int = -1) -> bool:
        assert step == -1
        if self.saved:
            self.trainer.step = max(self.saved)
        return bool(self.saved)

    def save(self, curr_step: int, last_step: bool = False) -> bool:
        if not (last_step or curr_step % self.interval == 0):
            return False
        self.saved[curr_step], self.is_writing = 1.0, not last_step
        return True

    def maybe_wait_for_saving(self) -> None:
        self.is_writing = False


class Trainer:
    """As torchtitan's, as far as the hook knows it."""

    def __init__(self, saved: dict[int, float], stop_in: int = 0) -> None:
        self.step, self.is_closed, self._stop_in = 0, False, stop_in
        self.config = SimpleNamespace(training=SimpleNamespace(steps=6), to_dict=lambda: {"training": {"steps": 6}})
        self.checkpointer = Checkpointer(self, saved)
        self.loggers: list = []
        container = SimpleNamespace(add_logger=self.loggers.append)
        self.metrics_processor = SimpleNamespace(logger=container)

    def train(self) -> None:
        self.checkpointer.load(step=-1)
        while self.step < self.config.training.steps:
            self.step += 1
            if self.step == self._stop_in:
                os.kill(os.getpid(), signal.SIGTERM)
            metrics = {
                "loss_metrics/global_avg_loss": 1 / self.step,
                "grad_norm": 2.0,
                "throughput(tps)": 50.0,
                "mfu(%)": 40.0,
            }
            for logger in self.loggers:
                logger.log(metrics, self.step)
            self.checkpointer.save(self.step, last_step=self.step == self.config.training.steps)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def train(start, capsys):
    def begin(trainer: Trainer) -> list[dict]:
        start("athanor_frameworks").torchtitan_hook(trainer)
        trainer.train()
        return said(capsys)

    return begin


def test_a_stopped_run_saves_whatever_the_interval_and_continues(train, capsys):
    saved: dict[int, float] = {}
    trainer = Trainer(saved, stop_in=3)
    with pytest.raises(SystemExit) as ended:
        train(trainer)
    assert (ended.value.code, set(saved), trainer.is_closed) == (143, {3}, True)
    assert (trainer.checkpointer.is_writing, trainer.checkpointer.interval) == (False, 4)
    settings, *lines = said(capsys)
    assert settings == {"hyperparameters": {"training.steps": 6}}
    assert [line["step"] for line in lines] == [1, 2, 3]
    _, *lines = train(Trainer(saved))
    assert [line["step"] for line in lines] == [4, 5, 6]
    assert set(saved) == {3, 4, 6}
    assert (lines[-1]["gradient_norm"], lines[-1]["tokens_per_second"], lines[-1]["mfu"]) == (2, 50, 0.4)
    assert lines[-1]["loss"] == pytest.approx(1 / 6)


def test_a_rank_that_logs_nothing_is_stopped_as_well(train):
    trainer = Trainer({}, stop_in=1)
    trainer.metrics_processor.logger = SimpleNamespace()
    with pytest.raises(SystemExit):
        train(trainer)
    assert set(trainer.checkpointer.saved) == {1}
