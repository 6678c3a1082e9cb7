"""Checkpoints that are whole or absent: `<folder>/step-00000200`, written with torch.distributed.checkpoint.

All ranks write to a hidden folder with a name nobody else uses, every file is flushed to disk, then rank 0 adds
`complete.json` (sizes of all files) and renames the folder. A kill, a full disk or a power failure at any moment
leaves the former checkpoints as they were. Saving is synchronous: on CPUs an asynchronous save competes with training
for the same cores and gains nothing.
"""

from __future__ import annotations

import re
import shutil
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load  # pyright: ignore[reportUnknownVariableType]
from torch.distributed.checkpoint.state_dict_saver import save  # pyright: ignore[reportUnknownVariableType]

from trainer.common.files import fsync_directory, read_json, write_json_atomically
from trainer.common.validation import at_least, changed_settings
from trainer.pytorch.distributed import MainRankError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trainer.pytorch.distributed import Distributed

T = TypeVar("T")

COMPLETE = "complete.json"
FORMAT_VERSION = 1

_FOLDER = re.compile(r"step-(\d{8,})")
_PARTIAL = re.compile(r"\.step-\d{8,}\.partial-[0-9a-f]{32}")


class CheckpointError(RuntimeError):
    """A checkpoint could not be saved or cannot be used; raised on every rank."""


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """How often to save and how much to keep."""

    checkpoint_interval_steps: int = 100
    """Save after every so many steps; the last step and a stop on request are always saved."""
    keep_latest_k: int = 3
    """Checkpoints to keep; older ones are removed after a save."""

    def __post_init__(self) -> None:
        at_least("checkpoint_interval_steps", self.checkpoint_interval_steps, 1)
        at_least("keep_latest_k", self.keep_latest_k, 1)


@dataclass(frozen=True, kw_only=True)
class StoredCheckpoint:
    """A checkpoint to resume from."""

    path: Path
    step: int
    world_size: int
    """Ranks of the run that wrote it."""
    saved_at: float
    """Unix time in seconds."""


class CheckpointManager:
    """Saves and finds the checkpoints of one run. All methods are collective: every rank calls them together."""

    def __init__(
        self, config: CheckpointConfig, folder: Path, distributed: Distributed, settings: dict[str, Any]
    ) -> None:
        """Manage the checkpoints in `folder`.

        Args:
            config: how many to keep.
            folder: an existing folder, the same for all ranks.
            distributed: the ranks.
            settings: what must be equal for a resumed run to continue the same curve; JSON values.
        """
        self._config = config
        self._folder = folder
        self._distributed = distributed
        self._settings = settings

    def save(self, step: int, state: dict[str, Any]) -> float:
        """Save a state; nested dictionaries of tensors and plain values, each rank its own part.

        Returns:
            Seconds it took; 0 when this step is saved already.

        Raises:
            CheckpointError: some rank could not write, for example because the disk is full. Former checkpoints are
                intact and training may go on.
        """
        begin = time.monotonic()
        target = self._folder / f"step-{step:08d}"
        if self._on_main(target.exists):
            # saved before a restart, and equal: replacing it would be a moment without it
            return 0.0
        partial = self._on_main(lambda: self._make_partial(target.name))
        try:
            save(state, storage_writer=FileSystemWriter(partial, sync_files=True, overwrite=False))
        except CheckpointException as error:
            self._distributed.on_main(lambda: shutil.rmtree(partial, ignore_errors=True))
            usage = shutil.disk_usage(self._folder)
            # always reported: torch reports a full disk as "unexpected pos"
            space = f"{usage.free / 1e6:,.0f} of {usage.total / 1e6:,.0f} MB are free in {self._folder}"
            raise CheckpointError(f"checkpoint of step {step} not saved: {_reasons(error)}; {space}") from error
        self._on_main(lambda: self._publish(partial, target, step))
        return time.monotonic() - begin

    def find_latest(self) -> StoredCheckpoint | None:
        """Return the latest intact checkpoint, after removing what interrupted saves left behind.

        Raises:
            CheckpointError: it was written with other settings.
        """
        return self._on_main(self._find_latest)

    def load(self, checkpoint: StoredCheckpoint, state: dict[str, Any]) -> None:
        """Read a checkpoint into a state of the same structure, tensors in place.

        Raises:
            CheckpointError: it does not fit the state or cannot be read.
        """
        try:
            load(state, storage_reader=FileSystemReader(checkpoint.path))
        except CheckpointException as error:
            fix = "Fix: remove that folder to resume from the one before"
            raise CheckpointError(f"{checkpoint.path}: cannot be loaded: {_reasons(error)}. {fix}") from error

    def _on_main(self, work: Callable[[], T]) -> T:
        try:
            return self._distributed.on_main(work)
        except (OSError, MainRankError) as error:
            raise CheckpointError(f"{self._folder}: {error}") from error

    def _make_partial(self, name: str) -> Path:
        partial = self._folder / f".{name}.partial-{uuid.uuid4().hex}"
        partial.mkdir()
        return partial

    def _publish(self, partial: Path, target: Path, step: int) -> None:
        sizes = {file.name: file.stat().st_size for file in partial.iterdir()}
        write_json_atomically(
            partial / COMPLETE,
            {
                "format_version": FORMAT_VERSION,
                "step": step,
                "world_size": self._distributed.world_size,
                "settings": self._settings,
                "files": sizes,
            },
        )
        partial.rename(target)
        fsync_directory(self._folder)
        for _, old in self._by_step()[: -self._config.keep_latest_k]:
            shutil.rmtree(old, ignore_errors=True)

    def _find_latest(self) -> StoredCheckpoint | None:
        for leftover in self._folder.iterdir():
            if _PARTIAL.fullmatch(leftover.name):
                shutil.rmtree(leftover, ignore_errors=True)
        for step, path in reversed(self._by_step()):
            complete = read_json(path / COMPLETE)
            if complete is None or not _is_intact(path, complete):
                # out of the way, or `keep_latest_k` would count it and remove good ones instead
                path.rename(path.with_name(f"{path.name}.damaged-{uuid.uuid4().hex}"))
                continue
            refuse_changed_settings(path, complete["settings"], self._settings)
            saved_at = (path / COMPLETE).stat().st_mtime
            return StoredCheckpoint(path=path, step=step, world_size=complete["world_size"], saved_at=saved_at)
        return None

    def _by_step(self) -> list[tuple[int, Path]]:
        matches = ((_FOLDER.fullmatch(path.name), path) for path in self._folder.iterdir())
        return sorted((int(match[1]), path) for match, path in matches if match)


def refuse_changed_settings(where: Path, saved: dict[str, Any], current: dict[str, Any]) -> None:
    """Refuse to continue a run whose settings are not those it was started with.

    Raises:
        CheckpointError: naming each setting with both values.
    """
    changed = changed_settings(saved, current)
    if changed:
        fix = "Fix: the former values, or another --run_name"
        raise CheckpointError(f"{where} belongs to a run with other settings: {changed}. {fix}")


def _is_intact(path: Path, complete: dict[str, Any]) -> bool:
    try:
        return all((path / name).stat().st_size == size for name, size in complete["files"].items())
    except (OSError, KeyError):
        return False


def _reasons(error: CheckpointException) -> str:
    return "; ".join(f"rank {rank}: {failure[0]}" for rank, failure in sorted(error.failures.items()))
