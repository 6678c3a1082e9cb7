"""Where a run writes, and the check that it can."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.distributed import Distributed


class FolderError(RuntimeError):
    """A folder cannot be written, or the workers do not see the same one."""


@dataclass(frozen=True, kw_only=True)
class RunFolders:
    """The folders of one run."""

    run: Path
    """Everything that belongs to this run alone; on the shared volume."""
    models: Path
    """The model repository that servers read; on the shared volume, shared by all runs."""
    logs: Path
    """Event logs, one file per rank."""
    work: Path
    """Scratch space of this worker: heartbeat files."""

    @property
    def checkpoints(self) -> Path:
        """One folder per checkpoint."""
        return self.run / "checkpoints"

    @property
    def result(self) -> Path:
        """Exists when the run is finished and its model published."""
        return self.run / "result.json"

    def create(self, distributed: Distributed) -> None:
        """Make the folders and see that all ranks share those that must be shared.

        Raises:
            FolderError: one cannot be written, or `run` is another folder on another worker. Every rank raises.
        """
        problem = ""
        try:
            for folder in (self.checkpoints, self.models, self.logs, self.work):
                folder.mkdir(parents=True, exist_ok=True)
                probe = folder / f".probe-{uuid.uuid4().hex}"
                probe.touch()
                probe.unlink()
        except OSError as error:
            problem = (
                f"{error.filename}: cannot be written: {error.strerror}. Fix: mount the volume writable for this user"
            )
        self._raise_together(distributed, problem)
        self._check_shared(distributed)

    def _check_shared(self, distributed: Distributed) -> None:
        token = distributed.on_main(lambda: f".shared-{uuid.uuid4().hex}")
        marker = self.run / token
        distributed.on_main(marker.touch)
        seen = marker.exists()
        problem = "" if seen else f"output_dir: rank {distributed.rank} does not see what rank 0 wrote to {self.run}"
        try:
            self._raise_together(distributed, problem and f"{problem}. Fix: one ReadWriteMany volume for all workers")
        finally:
            if distributed.is_main:
                marker.unlink(missing_ok=True)

    @staticmethod
    def _raise_together(distributed: Distributed, problem: str) -> None:
        problems = [found for found in distributed.gather(problem) if found]
        if problems:
            raise FolderError("; ".join(problems))
