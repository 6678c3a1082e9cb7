"""Evaluations of a run, and the best of its checkpoints.

They are in `evaluations.json` in the folder of the checkpoints, not in a checkpoint, which is saved before the
evaluation: a failed evaluation must not cost the steps before it. So a resumed run knows which evaluation its
checkpoint lacks: a run that is asked to stop when one is due, or during one, saves and ends, because the evaluation
might take longer than the time it has left.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from trainer.common.files import read_json, write_json_atomically

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    Scores = dict[int, dict[str, float]]
    """Figures by their names, by steps."""

logger = logging.getLogger(__name__)

_FILE = "evaluations.json"
_HIGHER_IS_BETTER = ("accuracy",)


def remember(folder: Path, step: int, scores: Mapping[str, float], *, saved: Collection[int], best_by: str) -> None:
    """Record an evaluation; for one of the ranks. A full volume costs a second evaluation, not the run.

    Args:
        folder: Of the checkpoints.
        step: Steps done.
        scores: What it gave.
        saved: Steps of the checkpoints. Evaluations of steps before the last of them that have none are forgotten.
        best_by: Which figure decides which checkpoint is the best; `off` for none.
    """
    latest = max(saved, default=0)
    known = {each: score for each, score in _read(folder).items() if each in saved or each > latest}
    _write(folder, known | {step: dict(scores)}, best_by)


def resume_at(folder: Path, step: int) -> bool:
    """Return whether a run that continues after `step` was evaluated there; for one of the ranks.

    Forgets the evaluations of later steps: they belong to a course of the run that was lost, and will be repeated.
    """
    scores = _read(folder)
    if any(each > step for each in scores):
        _write(folder, {each: score for each, score in scores.items() if each <= step}, best_by(folder))
    return step in scores


def best_by(folder: Path) -> str:
    """Return which figure decides which checkpoint is the best; `off` for none."""
    return (read_json(folder / _FILE) or {}).get("best_by", "off")


def best(folder: Path, saved: Collection[int]) -> int | None:
    """Return the step with the best figure, of equal ones the first; None where no figure decides.

    Args:
        folder: Of the checkpoints.
        saved: Steps of the checkpoints. One that is evaluated after the last of them may be on its way to the disk.
    """
    name, latest = best_by(folder), max(saved, default=0)
    sign = 1 if name in _HIGHER_IS_BETTER else -1
    ranked = {
        step: sign * scores[name]
        for step, scores in sorted(_read(folder).items())
        if math.isfinite(scores.get(name, math.nan)) and (step in saved or step > latest)
    }
    return max(ranked, key=lambda step: ranked[step], default=None)


def _read(folder: Path) -> Scores:
    scores: dict[str, dict[str, float]] = (read_json(folder / _FILE) or {}).get("scores", {})
    return {int(step): each for step, each in scores.items()}


def _write(folder: Path, scores: Scores, by: str) -> None:
    document: dict[str, Any] = {"best_by": by, "scores": {str(step): each for step, each in scores.items()}}
    try:
        write_json_atomically(folder / _FILE, document)
    except OSError as error:
        logger.warning("%s: not written: %s", folder / _FILE, error)
