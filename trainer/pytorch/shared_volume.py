"""The folders of a run on a volume that all ranks share: created, and verified to be the same for each rank."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from trainer.common.files import fix_of

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.pytorch.distributed import Distributed
    from trainer.training.folders import RunFolders


class FolderError(RuntimeError):
    """A folder cannot be written, or the workers do not see the same one."""


def create_folders(folders: RunFolders, distributed: Distributed) -> None:
    """Create the folders of a run and check that all ranks share those that must be shared.

    Raises:
        FolderError: one cannot be written, or `run` is another folder on another worker. Every rank raises.
    """
    problem = ""
    try:
        for folder in (folders.checkpoints, folders.models, folders.logs, folders.work):
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".probe-{uuid.uuid4().hex}"
            probe.touch()
            probe.unlink()
    except OSError as error:
        problem = f"{error.filename}: cannot be written: {error.strerror}. Fix: {fix_of(error)}"
    _raise_together(distributed, problem)
    _check_shared(folders.run, distributed)


def _check_shared(run: Path, distributed: Distributed) -> None:
    token = distributed.on_main(lambda: f".shared-{uuid.uuid4().hex}")
    marker = run / token
    distributed.on_main(marker.touch)
    seen = marker.exists()
    problem = "" if seen else f"output_dir: rank {distributed.rank} does not see what rank 0 wrote to {run}"
    try:
        _raise_together(distributed, problem and f"{problem}. Fix: one ReadWriteMany volume for all workers")
    finally:
        if distributed.is_main:
            marker.unlink(missing_ok=True)


def _raise_together(distributed: Distributed, problem: str) -> None:
    problems = {each for each in distributed.gather(problem) if each}
    if problems:
        # once, where all ranks have the same one
        raise FolderError("; ".join(sorted(problems)))
