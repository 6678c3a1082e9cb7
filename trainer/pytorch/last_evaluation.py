"""The step of a run's last evaluation, so that a resumed run does the one that its checkpoint lacks.

A run that is asked to stop in the last step of an epoch, or while it evaluates, saves and ends: the evaluation might
take longer than it has.
Not in the checkpoint, which is saved before the evaluation: one that fails must not cost the epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.common.files import read_number, remember_number

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "last-evaluation.json"


def remember(run_folder: Path, step: int) -> None:
    """Record an evaluation; for one of the ranks. A full volume costs a second evaluation, not the run."""
    remember_number(run_folder / _FILE, "step", step)


def resume_at(run_folder: Path, step: int) -> bool:
    """Return whether a run that continues after `step` was evaluated there; for one of the ranks.

    Forgets the evaluation of a later step: it belongs to a course of the run that was lost, and will be repeated.
    """
    last = read_number(run_folder / _FILE, "step")
    if last > step:
        remember(run_folder, 0)
    return last == step
