"""The count of non-finite losses of a run, over all its processes.

Such a process ends within milliseconds, before anybody could read its metrics: the next one reports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.common.files import read_number, remember_number

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "non-finite-losses.json"


def count(run_folder: Path) -> int:
    """Return how often it happened in this run."""
    return read_number(run_folder / _FILE, "count")


def remember(run_folder: Path) -> None:
    """Count one more; for one of the ranks. A volume that cannot be written must not hide what ended the run."""
    remember_number(run_folder / _FILE, "count", count(run_folder) + 1)
