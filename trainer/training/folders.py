"""The folders of a run, and of its worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


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
