"""How often a run met a loss that is not a finite number, over all its processes.

Such a process ends within milliseconds, before anybody could read its metrics: the next one reports it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trainer.common.files import read_number, write_json_atomically

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

_FILE = "non-finite-losses.json"


def count(run_folder: Path) -> int:
    """Return how often it happened in this run."""
    return read_number(run_folder / _FILE, "count")


def remember(run_folder: Path) -> None:
    """Count one more; for one of the ranks. A volume that cannot be written must not hide what ended the run."""
    try:
        write_json_atomically(run_folder / _FILE, {"count": count(run_folder) + 1})
    except OSError as error:
        logger.warning("%s: not written: %s", run_folder / _FILE, error)
