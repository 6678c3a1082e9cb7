"""Command line options of checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer.common.validation import at_least

CheckpointMode = Literal["sync", "async"]


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """How often to save, how, and how much to keep."""

    checkpoint_interval_steps: int = 100
    """Save after every so many steps; the last step and a stop on request are always saved."""
    checkpoint_mode: CheckpointMode = "sync"
    """`async` copies the state to shared memory and lets a second process of each rank write it while training goes
    on: for a state of hundreds of MB. It needs as much of /dev/shm as the state of the ranks of a pod, and about
    0.6 GB of memory per rank for the process. The last step and a stop are saved in `sync`."""
    keep_latest_k: int = 3
    """Checkpoints to keep; older ones are removed after a save."""
    keep_every_n_steps: int = 0
    """Also keep, forever, those whose step is a multiple of this; 0 keeps none of them. A multiple of the interval."""
    keep_best: Literal["off", "loss", "accuracy"] = "off"
    """Also keep the one with the lowest loss, or the highest accuracy, on held-out samples; an evaluation that is the
    best so far is saved. `trainer.export --step best` publishes it."""

    def __post_init__(self) -> None:
        at_least("checkpoint_interval_steps", self.checkpoint_interval_steps, 1)
        at_least("keep_latest_k", self.keep_latest_k, 1)
        at_least("keep_every_n_steps", self.keep_every_n_steps, 0)
        if self.keep_every_n_steps % self.checkpoint_interval_steps:
            limit = f"must be a multiple of checkpoint_interval_steps={self.checkpoint_interval_steps}"
            raise ValueError(f"keep_every_n_steps={self.keep_every_n_steps}: {limit}, or such steps are not saved")

    def without_effect(self, total_steps: int) -> list[str]:
        """Say what does not do what it is for in a run of so many steps, and the fix."""
        limit, messages = f"the run has {total_steps} steps", list[str]()
        interval, every = self.checkpoint_interval_steps, self.keep_every_n_steps
        # the default promises to lose at most so many steps, which a short run does not break
        if interval >= total_steps and interval != CheckpointConfig.checkpoint_interval_steps:
            effect = "no checkpoint is saved before the end"
            fix = f"fewer than {total_steps}" if total_steps > 1 else "leave it out"
            messages.append(f"checkpoint_interval_steps={interval}: {limit}: {effect}. Fix: {fix}")
        if every > total_steps:
            largest = total_steps // interval * interval
            fix = f"at most {largest}, or leave it out" if largest else "leave it out"
            messages.append(f"keep_every_n_steps={every}: {limit}: no checkpoint is kept forever. Fix: {fix}")
        return messages
