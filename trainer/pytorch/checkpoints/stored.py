"""Reads a run's checkpoint without its ranks: one process, no process group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trainer.pytorch.checkpoints import evaluated, folders
from trainer.pytorch.checkpoints.errors import CheckpointError, DamagedError
from trainer.pytorch.checkpoints.manifest import Manifest, read_manifest
from trainer.pytorch.checkpoints.reader import load_state, outline

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

_MODEL = "model."

Step = int | Literal["best"]


def checkpoint_of_run(run: Path, step: Step | None = None) -> tuple[Path, Manifest]:
    """Return a run's latest intact checkpoint, or that of a step, and its manifest.

    All its files are compared with their SHA-256. Damaged checkpoints stay as they are.

    Args:
        run: Its folder.
        step: `best` is the one that --keep_best has kept.

    Raises:
        CheckpointError: there is none, or a later release wrote it.
    """
    folder = run / "checkpoints"
    there = folders.by_step(folder) if folder.is_dir() else []
    if step == "best":
        step = evaluated.best(folder, dict(there))
        if step is None:
            fix = "Fix: a run with --keep_best loss or accuracy that was evaluated, or a number as --step"
            raise CheckpointError(f"step=best: {folder} has no best checkpoint. {fix}")
    damages: list[str] = []
    for of_step, path in reversed(there):
        if step is not None and of_step != step:
            continue
        try:
            manifest = read_manifest(path)
            manifest.check_sizes(path)
            manifest.check_content(path, manifest.sha256)
        except DamagedError as error:
            damages.append(f"{path.name} is damaged: {error}")
        else:
            return path, manifest
    if step is not None and not damages:
        steps = ", ".join(str(of_step) for of_step, _ in there) or "none"
        raise CheckpointError(f"step={step}: {folder} has no such checkpoint. Fix: one of {steps}")
    if damages:
        raise CheckpointError(f"{run}: {'; '.join(damages)}. Fix: an intact copy of that folder")
    raise CheckpointError(
        f"{run}: has no complete checkpoints/step-*. Fix: the folder of a run, <output_dir>/<run_name>"
    )


def whole_weights(checkpoint: Path) -> dict[str, Tensor]:
    """Return the parameters and buffers of a checkpoint's model on the CPU, whole, in whatever layout it was saved.

    Raises:
        CheckpointError: torch cannot read it.
    """
    try:
        entries = outline(checkpoint, _MODEL).items()
        weights = {name.removeprefix(_MODEL): tensor for name, tensor in entries if tensor is not None}
        load_state(checkpoint, {"model": weights}, alone=True)
    except Exception as error:  # torch raises anything for files that do not fit
        raise CheckpointError(f"{checkpoint}: cannot be read: {error}") from error
    return weights
