"""Check that a resumed run has the settings that it was started with."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from trainer.common.validation import changed_settings
from trainer.pytorch.checkpoints.errors import CheckpointError
from trainer.pytorch.data.registry import DEFAULT_DATASET
from trainer.pytorch.models.registry import DEFAULT_MODEL
from trainer.pytorch.precision import PrecisionConfig

if TYPE_CHECKING:
    from pathlib import Path

_UNNAMED: dict[str, Any] = {
    "model": DEFAULT_MODEL,
    "dataset": DEFAULT_DATASET,
    **dataclasses.asdict(PrecisionConfig()),
    "max_steps": None,
    "sync_batch_norm": False,
    "optimizer": "adamw",
    "weight_decay_on": "all",
    "adam_betas": [0.9, 0.999],
    "adam_epsilon": 1e-8,
    "sgd_momentum": 0.9,
    "schedule": "cosine",
    "minimum_learning_rate": 0.0,
    "decay_fraction": 0.1,
}
"""What settings that lack it mean: checkpoints of the time when there was no choice do not name it."""


def refuse_changed_settings(where: Path, saved: dict[str, Any], current: dict[str, Any]) -> None:
    """Refuse to continue a run whose settings are not those it was started with.

    Raises:
        CheckpointError: naming each setting with both values.
    """
    changed = changed_settings({**_UNNAMED, **saved}, {**_UNNAMED, **current})
    if changed:
        fix = "Fix: the former values, or another --run_name"
        raise CheckpointError(f"{where} belongs to a run with other settings: {changed}. {fix}")
