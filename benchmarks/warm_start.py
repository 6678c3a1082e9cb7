"""From a stopped cluster to a served prediction: what a user waits for in the morning."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks.rounds import spread
from tools.local_environment import commands
from tools.local_environment.up import up
from tools.tables import table

if TYPE_CHECKING:
    from rich.table import Table

    from tools.progress import Progress

ROUNDS = 3


def measure(report: Progress) -> Table:
    """Return the table; the environment runs again afterwards."""
    seconds: list[float] = []
    for _ in range(ROUNDS):
        commands.stop(report)
        begin = time.perf_counter()
        up(Console(file=io.StringIO()), report)
        seconds.append(time.perf_counter() - begin)
    rows = [["make up from a stopped cluster to a prediction", spread(seconds)]]
    return table(f"Warm start, {ROUNDS} rounds, median (range)", ["what", "time"], rows)
