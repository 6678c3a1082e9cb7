"""Scheduling of checkpoints during training, the time that training pauses for them, and their report."""

from __future__ import annotations

import logging
import time
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer.pytorch.checkpoints.background import Answer, Background
from trainer.pytorch.checkpoints.errors import CheckpointError
from trainer.pytorch.checkpoints.writer import CheckpointWriter, Save

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.pytorch.checkpoints.config import CheckpointConfig
    from trainer.pytorch.checkpoints.manager import CheckpointManager
    from trainer.pytorch.distributed import Distributed
    from trainer.training.events import EventLog
    from trainer.training.metrics import TrainingMetrics

    State = Callable[[], dict[str, Any]]
    """Returns the state to save; collective. What a step changes before it changes the parameters is a copy."""

logger = logging.getLogger(__name__)

_LAST_SAVE_SECONDS = 30.0
"""Time for a save in the background when its run fails; longer would keep the other ranks from starting again."""


@dataclass(kw_only=True)
class _Running:
    """A save in the background."""

    what: Save
    answer: futures.Future[Answer]
    begin: float
    stood_still_seconds: float
    """Seconds that training has waited for it so far."""


class Saves:
    """Saves states while training pauses, or in the background, and reports each save to metrics and events."""

    def __init__(
        self,
        config: CheckpointConfig,
        manager: CheckpointManager,
        distributed: Distributed,
        metrics: TrainingMetrics,
        events: EventLog,
    ) -> None:
        self._manager = manager
        self._distributed = distributed
        self._metrics = metrics
        self._events = events
        self._in_background = config.checkpoint_mode == "async"
        self._background: Background | None = None
        self._running: _Running | None = None

    def now(self, step: int, state: State) -> None:
        """Save a state, and return when it is on disk; collective.

        Raises:
            CheckpointError: it could not be saved.
        """
        self._distributed.allow_checkpoint()
        self.wait()
        self._saved(step, self._manager.save(step, state()))

    def at_interval(self, step: int, state: State) -> None:
        """Save a state, in the background if possible; collective.

        A full disk in the middle of a run must not cost the run, there may be space at the next interval.
        """
        self._distributed.allow_checkpoint()
        try:
            begin = time.monotonic()
            self.wait()
            now = state()
            if self._can_use_background(now):
                self._start(step, now, begin)
            else:
                self._saved(step, self._manager.save(step, now))
        except CheckpointError as error:
            self._failed(step, error)

    def before_update(self) -> None:
        """Wait until the parameters and the optimizer's state may change; not collective."""
        if self._running is None or self._background is None:
            return
        begin = time.monotonic()
        self._background.wait_for_copy()
        self._running.stood_still_seconds += time.monotonic() - begin

    def look(self) -> None:
        """Report a save in the background that has ended; not collective, and without waiting."""
        if self._running is not None and self._running.answer.done():
            self.wait()

    def wait(self) -> None:
        """Wait for the save in the background, if there is one, and report it; not collective."""
        running, self._running = self._running, None
        if running is None:
            return
        failure = running.answer.result().failure
        try:
            self._manager.conclude(running.what, failure=failure)
        except CheckpointError as error:
            self._failed(running.what.step, error)
        else:
            seconds = time.monotonic() - running.begin
            self._saved(running.what.step, running.stood_still_seconds, background_seconds=seconds)

    def close(self) -> None:
        """End the background process, after giving a save that a failing run has begun some time to end."""
        if self._running is not None and futures.wait([self._running.answer], _LAST_SAVE_SECONDS).done:
            self.wait()
        if self._background is not None:
            self._background.close()
            self._background = None

    def _start(self, step: int, state: dict[str, Any], begin: float) -> None:
        assert self._background is not None, "it was just started"
        what = self._manager.begin(step, state)
        if what is None:
            self._saved(step, 0.0)
            return
        answer = self._background.start(state, CheckpointWriter(what))
        stood_still = time.monotonic() - begin
        self._running = _Running(what=what, answer=answer, begin=begin, stood_still_seconds=stood_still)

    def _can_use_background(self, state: dict[str, Any]) -> bool:
        """Agree whether every rank can; where one cannot, all save by themselves until the run ends."""
        if not self._in_background:
            return False
        problems = sorted({each for each in self._distributed.gather(self._problem(state)) if each})
        if problems:
            logger.warning("saving in the background is not possible, training waits: %s", "; ".join(problems))
            self._in_background = False
            self.close()
        elif self._background is None:
            self._background = Background(self._distributed)
        return self._in_background

    def _problem(self, state: dict[str, Any]) -> str:
        if self._background is None:
            lacking = Background.lacks(state, self._distributed.local_world_size)
            return lacking and f"{lacking}. Fix: more shared memory, or --checkpoint_mode sync"
        return "" if self._background.is_usable else f"rank {self._distributed.rank} lost its background process"

    def _saved(self, step: int, seconds: float, **more: float) -> None:
        self._metrics.on_checkpoint(seconds)
        self._events.write("checkpoint_saved", step=step, seconds=seconds, **more)

    def _failed(self, step: int, error: CheckpointError) -> None:
        self._metrics.on_checkpoint_failure()
        self._events.write("checkpoint_failed", step=step, error=str(error))
