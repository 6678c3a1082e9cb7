"""Stragglers: the rank that the others wait for, and for how long."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.pytorch.distributed import Distributed
    from trainer.pytorch.reporting.config import StragglerConfig
    from trainer.training.metrics import StepReport


@dataclass(frozen=True, kw_only=True)
class RankTimes:
    """Means of a rank over the steps since the last comparison, in seconds."""

    host: str
    own: float
    """Seconds until it had its own gradients: data, forward and backward pass."""
    data_wait: float
    """Part of `own`."""
    step: float
    """The whole step, with the wait for other ranks."""


@dataclass(frozen=True, kw_only=True)
class Slowest:
    """The rank with the longest time of its own."""

    rank: int
    times: RankTimes
    median_own: float

    @property
    def ratio(self) -> float:
        """Its time as a multiple of the median."""
        return self.times.own / self.median_own

    def fields(self) -> dict[str, Any]:
        """Return its fields for the event log."""
        return {
            "slowest_rank": self.rank,
            "host": self.times.host,
            "ratio": self.ratio,
            "own_seconds": self.times.own,
            "median_own_seconds": self.median_own,
            "data_wait_seconds": self.times.data_wait,
            "others_wait_seconds": self.times.step - self.median_own,
        }


def slowest(of_ranks: Sequence[RankTimes]) -> Slowest:
    """Return the slowest of at least one rank; the median of an even number is the lower of the two in the middle."""
    rank = max(range(len(of_ranks)), key=lambda index: of_ranks[index].own)
    return Slowest(rank=rank, times=of_ranks[rank], median_own=median_low([times.own for times in of_ranks]))


class Stragglers:
    """Collects the times of this rank and compares them with those of the others from time to time."""

    def __init__(self, config: StragglerConfig, distributed: Distributed) -> None:
        self._interval_steps = config.straggler_interval_steps if distributed.world_size > 1 else 0
        self._distributed = distributed
        self._host = socket.gethostname()
        self._reports: list[StepReport] = []
        self._is_first = True

    def on_step(self, report: StepReport) -> Slowest | None:
        """Return the slowest rank where this step ends an interval, the same on every rank; collective.

        The first step of a process does not count: in it, kernels are loaded and chosen.
        """
        if not self._interval_steps:
            return None
        if self._is_first:
            self._is_first = False
        else:
            self._reports.append(report)
        if report.step % self._interval_steps or not self._reports:
            return None
        own = self._means()
        self._reports.clear()
        return slowest(self._distributed.gather(own))

    def _means(self) -> RankTimes:
        count = len(self._reports)
        return RankTimes(
            host=self._host,
            own=sum(report.own_seconds or 0 for report in self._reports) / count,
            data_wait=sum(report.data_wait_seconds or 0 for report in self._reports) / count,
            step=sum(report.step_seconds for report in self._reports) / count,
        )
