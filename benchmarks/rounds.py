"""Time variants against each other: interleaved rounds, medians, so that a slow minute hits all of them alike."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def interleaved_seconds(
    variants: Mapping[str, Callable[[], object]], rounds: int, clean_up: Callable[[str], object] | None = None
) -> dict[str, list[float]]:
    """Run every variant once per round, in turn, after one round that does not count; return the seconds of each.

    Args:
        variants: What to time, by name.
        rounds: Rounds that count.
        clean_up: Called with a variant's name after every run of it; its time does not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, run in variants.items():
            begin = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - begin)
            if clean_up:
                clean_up(name)
    return seconds


def spread(values: list[float], unit: str = "s", digits: int = 2) -> str:
    """Return `median (minimum to maximum)` of values in a unit."""
    median, lowest, highest = statistics.median(values), min(values), max(values)
    return f"{median:.{digits}f} {unit} ({lowest:.{digits}f} to {highest:.{digits}f})"
