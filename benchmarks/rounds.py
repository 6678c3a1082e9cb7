"""Time variants against each other: interleaved rounds, medians, so that a slow minute hits all of them alike."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def interleaved_seconds(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Run every variant once per round, in turn, after one round that does not count; return the seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, run in variants.items():
            begin = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def spread(values: list[float]) -> str:
    """Return `median (minimum to maximum)` in seconds."""
    return f"{statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})"
