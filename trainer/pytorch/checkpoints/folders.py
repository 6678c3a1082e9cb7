"""The folders of a run's checkpoints, such as `step-00000200`: their names, removal and quarantine."""

from __future__ import annotations

import re
import shutil
import uuid
from typing import TYPE_CHECKING

from trainer.pytorch.checkpoints import evaluated

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.pytorch.checkpoints.config import CheckpointConfig

_FOLDER = re.compile(r"step-(\d{8,})")
_LEFTOVER = re.compile(r"\.step-\d{8,}\.(partial|removed)-[0-9a-f]{32}")


def folder_of(folder: Path, step: int) -> Path:
    """Return where the checkpoint of a step is."""
    return folder / f"step-{step:08d}"


def by_step(folder: Path) -> list[tuple[int, Path]]:
    """Return the checkpoints in a folder, those of early steps first."""
    matches = ((_FOLDER.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in matches if match)


def make_partial(target: Path) -> Path:
    """Create the hidden folder in which a checkpoint is written; nobody else uses its name.

    Raises:
        OSError: it cannot be created.
    """
    partial = target.with_name(f".{target.name}.partial-{uuid.uuid4().hex}")
    partial.mkdir()
    return partial


def remove(path: Path) -> None:
    """Remove a checkpoint, or what there is of one, as far as possible.

    It loses its name first: a process of an earlier start that still writes there can no longer publish what is left,
    and a kill in between leaves no half checkpoint under a name that counts.
    """
    step = path.name.lstrip(".").partition(".")[0]
    doomed = path.with_name(f".{step}.removed-{uuid.uuid4().hex}")
    try:
        path.rename(doomed)
    except OSError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what interrupted saves and removals left behind."""
    for path in folder.iterdir():
        if _LEFTOVER.fullmatch(path.name):
            remove(path)


def set_aside(path: Path) -> Path:
    """Rename a damaged checkpoint, or it would count as one of those to keep; return its new path.

    Raises:
        OSError: it cannot be renamed.
    """
    return path.rename(path.with_name(f"{path.name}.damaged-{uuid.uuid4().hex}"))


def surplus(steps: list[int], config: CheckpointConfig, best: int | None = None) -> list[int]:
    """Return the steps whose checkpoints are not to be kept.

    Args:
        steps: All that there are, in ascending order.
        config: How many to keep.
        best: The step of the best one, if that is to be kept.
    """
    every = config.keep_every_n_steps
    return [step for step in steps[: -config.keep_latest_k] if step != best and not (every and step % every == 0)]


def remove_surplus(folder: Path, config: CheckpointConfig) -> None:
    """Remove the checkpoints that are not to be kept."""
    paths = dict(by_step(folder))
    best = evaluated.best(folder, paths) if config.keep_best != "off" else None
    for step in surplus(list(paths), config, best):
        remove(paths[step])
