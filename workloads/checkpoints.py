"""Checkpoint options of training jobs, which the platform's trainer takes as arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from infra.descriptions import checked
from infra.errors import RefusalError
from workloads.checks import check_range

_MAXIMUM_STEPS = 1_000_000_000
_MAXIMUM_KEPT = 10_000


@checked("checkpoints")
@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """When checkpoints are saved, how, and which of them are kept."""

    every: int = 100
    """Save after every so many steps; the last step and a stop on request are always saved."""
    mode: Literal["sync", "async"] = "sync"
    """`async` lets a second process of each rank write while training goes on: for a state of hundreds of MB. It needs
    as much `resources.shared_memory` as the state of a pod's ranks, and 0.6 GB of memory per rank."""
    keep_latest: int = 3
    """Checkpoints to keep; older ones are removed."""
    keep_every: int | None = None
    """Also keep those whose step is a multiple of this, forever. Default: none of them."""
    keep_best: Literal["loss", "accuracy"] | None = None
    """Also keep the one with the lowest loss, or the highest accuracy, on held-out samples. Default: it is treated as
    the others."""

    def __post_init__(self) -> None:
        """Refuse what the trainer would refuse."""
        check_range("checkpoints.every", self.every, 1, _MAXIMUM_STEPS)
        check_range("checkpoints.keep_latest", self.keep_latest, 1, _MAXIMUM_KEPT)
        if self.keep_every is None:
            return
        check_range("checkpoints.keep_every", self.keep_every, 1, _MAXIMUM_STEPS)
        if self.keep_every % self.every:
            limit = f"is not a multiple of every={self.every}, so such steps are not saved"
            fix = f"use {(self.keep_every // self.every + 1) * self.every}, or another multiple"
            raise RefusalError("checkpoints.keep_every", self.keep_every, limit, fix)

    def arguments(self) -> tuple[str, ...]:
        """Return it as arguments of the trainer's command line."""
        return (
            f"--checkpoint_interval_steps={self.every}",
            f"--checkpoint_mode={self.mode}",
            f"--keep_latest_k={self.keep_latest}",
            *(() if self.keep_every is None else (f"--keep_every_n_steps={self.keep_every}",)),
            *(() if self.keep_best is None else (f"--keep_best={self.keep_best}",)),
        )
