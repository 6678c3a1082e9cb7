"""Time variants against each other: interleaved rounds, medians, so that a slow minute hits all of them alike."""

from __future__ import annotations

import resource
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, kw_only=True)
class Times:
    """What one run of a variant took."""

    wall_seconds: float
    cpu_seconds: float
    """User and system time of the processes that were started and waited for, with those that they waited for."""


def interleaved_times(
    variants: Mapping[str, Callable[[], object]], rounds: int, clean_up: Callable[[str], object] | None = None
) -> dict[str, list[Times]]:
    """Run every variant once per round, in turn, after one round that does not count; return the times of each.

    Args:
        variants: What to time, by name.
        rounds: Rounds that count.
        clean_up: Called with a variant's name after every run of it; its time does not count.
    """
    times: dict[str, list[Times]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, run in variants.items():
            begin, cpu_before = time.perf_counter(), _cpu_seconds_of_children()
            run()
            wall, cpu = time.perf_counter() - begin, _cpu_seconds_of_children() - cpu_before
            if number:
                times[name].append(Times(wall_seconds=wall, cpu_seconds=cpu))
            if clean_up:
                clean_up(name)
    return times


def interleaved_seconds(
    variants: Mapping[str, Callable[[], object]], rounds: int, clean_up: Callable[[str], object] | None = None
) -> dict[str, list[float]]:
    """Return what `interleaved_times` does, but only the wall-clock seconds."""
    times = interleaved_times(variants, rounds, clean_up)
    return {name: [each.wall_seconds for each in values] for name, values in times.items()}


def _cpu_seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def spread(values: list[float], unit: str = "s", digits: int = 2) -> str:
    """Return `median (minimum to maximum)` of values in a unit."""
    median, lowest, highest = statistics.median(values), min(values), max(values)
    return f"{median:.{digits}f} {unit} ({lowest:.{digits}f} to {highest:.{digits}f})"
