"""A program's run on the platform: its progress, its checkpoints, and a stop in time; in every job's pods by itself.

    from athanor_run import Training

    with Training(1000, save=save, load=load) as run:
        for step in run:
            loss = train_step()
            run.report(loss=loss, samples=64)

`save` and `load` get a folder. Programs that only want to be watched call `report`, and `saved` after a checkpoint in
`checkpoint_dir()`. Outside of a job the same lines are printed, and checkpoints are kept in ./checkpoints. Callbacks
for frameworks are in athanor_frameworks. Only Python's standard library, of 3.8 and later: the image may have any.
"""

from __future__ import annotations

import math
import os
import resource
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import athanor_checkpoints as checkpoints
import athanor_progress as progress
import athanor_ranks as ranks
from athanor_gpu_peaks import gpu_peak
from athanor_heartbeat import FOLDER, Heartbeat
from athanor_progress import hyperparameters, report, saved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self

__all__ = ["Training", "Watched", "checkpoint_dir", "hyperparameters", "report", "saved"]

_OUTPUT = Path("/data/output")


def checkpoint_dir() -> Path:
    """Return the folder for this run's checkpoints, which outlives its pods; it exists."""
    job = os.environ.get("ATHANOR_JOB")
    folder = _OUTPUT / job / "checkpoints" if job else Path("checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Watched:
    """A loop that a framework or `Training` drives: its heartbeat, its throughput, and whether it must stop."""

    SLOW_SECONDS = 1800.0
    """Longest time of the first step, a checkpoint or an evaluation, for the liveness probe."""

    def __init__(self, *, step_seconds: float = 600) -> None:
        """Do nothing yet.

        Args:
            step_seconds: Longest time of any other step, for the liveness probe.
        """
        self._step_seconds = step_seconds
        self.step = 0
        self.total_steps: int | None = None
        self._heartbeat: Heartbeat | None = None
        self._stop: ranks.StopRequest | None = None
        self._reported = (0, time.monotonic())

    def begin(self, step: int, total_steps: float | None, *, resumed: Path | None = None) -> None:
        """Take note that training begins or continues now; from here on a stop is a request.

        Args:
            step: How many steps are done.
            total_steps: How many there will be; None or infinite where that is not known.
            resumed: The checkpoint that it continues from.
        """
        known = total_steps is not None and 0 < total_steps < math.inf
        self.step, self.total_steps = step, int(total_steps) if known and total_steps is not None else None
        self._reported = (step, time.monotonic())
        if self._stop is None:
            self._stop = ranks.StopRequest()
        if "ATHANOR_JOB" in os.environ:
            with suppress(OSError):  # a pod without a place for it has no probe that reads it
                FOLDER.mkdir(parents=True, exist_ok=True)
                self._heartbeat = Heartbeat(FOLDER, rank=ranks.rank())
        at = None if resumed is None else checkpoints.saved_at(resumed)
        if at is not None:
            saved(at)
        self._note()
        self.expect_slow("the first step")

    def step_done(self, step: int, *, save_due: bool = False) -> tuple[bool, bool]:
        """Take note of a step that ended now, and return whether to stop, and whether a rank's checkpoint is due.

        Every rank asks, and gets the same answers.
        """
        self.step = step
        if self._heartbeat is not None:
            self._heartbeat.beat(step)
        self.expect_step()
        self._note()
        stop, save = ranks.agreed([self._stop is not None and self._stop.requested, save_due])
        return stop, save

    def expect_slow(self, what: str) -> None:
        """Take note that something begins that takes longer than a step."""
        if self._heartbeat is not None:
            self._heartbeat.expect(what, self.SLOW_SECONDS)

    def expect_step(self) -> None:
        """Take note that the next step begins, or that something slow gets on."""
        if self._heartbeat is not None:
            self._heartbeat.expect("a step", self._step_seconds)

    def report(
        self, step: int, numbers: Mapping[str, object], *, samples: float | None = None, tokens: float | None = None,
        flops: float | None = None,
    ) -> None:  # fmt: skip
        """Report a step, with the throughput since the last report.

        Args:
            step: How many steps are done.
            numbers: By name; see the function `report`.
            samples: Of one step, over all ranks.
            tokens: The same.
            flops: Floating-point operations of one step, over all ranks; gives the MFU on GPUs whose peak is known.
        """
        (before, then), now = self._reported, time.monotonic()
        self._reported = (step, now)
        pace = (step - before) / (now - then) if step > before and now > then else None
        speeds: dict[str, float] = {}
        if pace is not None:
            for name, of_step in (("samples", samples), ("tokens", tokens)):
                speeds.update({} if of_step is None else {f"{name}_per_second": of_step * pace})
            peak = None if flops is None else _peak()
            if flops is not None and peak is not None:
                speeds["mfu"] = flops * pace / (peak * ranks.world_size())
        report(step, self.total_steps, **{**numbers, **speeds})

    def end(self) -> None:
        """Take note that training is over: a signal ends the program again, and nothing limits what it does."""
        if self._heartbeat is not None:
            self._heartbeat.expect("work after training", None)
        if self._stop is not None:
            self._stop.close()
            self._stop = None

    def stop(self) -> None:
        """End this rank, when its checkpoint is complete.

        Raises:
            SystemExit: with STOPPED_EXIT_STATUS.
        """
        self.end()
        raise SystemExit(ranks.STOPPED_EXIT_STATUS)

    def _note(self) -> None:
        total = {} if self.total_steps is None else {"total_steps": self.total_steps}
        progress.note(step=self.step, **total, **_memory())


@dataclass
class Training:
    """A loop of one's own: `for step in run`, or `for batch in run.batches(loader)`.

    It continues from the latest valid checkpoint. A checkpoint is saved after `every_seconds`, at the end, and when the
    pod is asked to stop: then the program ends with status 143.
    """

    total_steps: int
    """Of the whole run."""
    save: Callable[[Path], object] | None = None
    """Writes the state of the program into the folder that it gets; without it there are no checkpoints."""
    load: Callable[[Path], object] | None = None
    """Reads what `save` wrote; every rank calls it."""
    every_rank: bool = False
    """Whether every rank calls `save`, as where parameters are sharded, or rank 0 alone."""
    every_seconds: float = 600
    """Time between two checkpoints."""
    keep: int = 2
    """How many checkpoints are kept."""
    settings: Mapping[str, object] | None = None
    """Hyperparameters; see `hyperparameters`."""
    step_seconds: float = 600
    """After which a step counts as stuck, where the job has a liveness probe."""

    def __post_init__(self) -> None:
        self._watched = Watched(step_seconds=self.step_seconds)
        self._checkpoints: checkpoints.Checkpoints | None = None
        self._batches: list[checkpoints.Batches] = []
        self._resumed: Path | None = None
        self._saved_step, self._saved_at = 0, time.monotonic()

    @property
    def step(self) -> int:
        """How many steps are done."""
        return self._watched.step

    def __enter__(self) -> Self:
        if self.settings:
            hyperparameters(self.settings)
        step = 0
        if self.save is not None:
            self._checkpoints = checkpoints.Checkpoints(checkpoint_dir(), keep=self.keep)
            self._resumed = None if self.load is None else self._checkpoints.latest()
        if self._resumed is not None and self.load is not None:
            step = self._saved_step = checkpoints.step_of(self._resumed) or 0
            self.load(self._resumed)
            checkpoints.restore_state(self._resumed)
        self._saved_at = time.monotonic()
        self._watched.begin(step, self.total_steps, resumed=self._resumed)
        return self

    def __exit__(self, *_: object) -> None:
        self._watched.end()

    def __iter__(self) -> Iterator[int]:
        """Yield the steps that are left, from 0; the end of the loop's body is the end of a step."""
        while self.step < self.total_steps:
            yield self.step
            self._step_done()
        self._save_now()

    def batches(self, loader: Any) -> Iterator[Any]:  # noqa: ANN401 - any iterable
        """Yield a batch for each step that is left, over as many epochs as that takes, as if there had been no stop.

        A sampler with `set_epoch`, such as torch's DistributedSampler, gets the epochs.
        """
        data = checkpoints.Batches(loader)
        self._batches.append(data)
        if self._resumed is not None:
            checkpoints.restore_state(self._resumed, self._batches)
        epochs = _epochs(data)
        for _ in self:
            yield next(epochs)

    def report(
        self,
        *,
        samples: float | None = None,
        tokens: float | None = None,
        flops: float | None = None,
        **numbers: object,
    ) -> None:
        """Report the step of this pass of the loop, and any numbers by name; see `Watched.report`."""
        self._watched.report(self.step + 1, numbers, samples=samples, tokens=tokens, flops=flops)

    def _step_done(self) -> None:
        is_old = time.monotonic() - self._saved_at >= self.every_seconds
        stop, due = self._watched.step_done(self.step + 1, save_due=is_old)
        if stop or due:
            self._save_now()
        if stop:
            self._watched.stop()

    def _save_now(self) -> None:
        if self._checkpoints is None or self.save is None or self._saved_step == self.step:
            return
        self._watched.expect_slow("a checkpoint")
        self._checkpoints.save(self.step, self.save, every_rank=self.every_rank, batches=self._batches)
        saved()
        self._saved_step, self._saved_at = self.step, time.monotonic()
        self._watched.expect_step()


def _epochs(data: checkpoints.Batches) -> Iterator[Any]:
    """Yield the batches of one epoch after the other.

    Raises:
        ValueError: an epoch has none.
    """
    while True:
        is_empty = True
        for batch in data:
            is_empty = False
            yield batch
        if is_empty:
            raise ValueError("batches: the loader gives no batch. Fix: a smaller batch, or drop_last=False")


def _memory() -> dict[str, float]:
    """Return the most memory that torch allocated on this process's GPU, else that the process used, in bytes."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        return {"memory_peak_bytes": cuda.max_memory_allocated()}
    # Linux counts in KiB (getrusage(2))
    return {"memory_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def _peak() -> float | None:
    """Return the most floating-point operations per second of this process's GPU; None where that is not known."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    peak = gpu_peak(torch.cuda.get_device_name())
    return None if peak is None else peak.flops
