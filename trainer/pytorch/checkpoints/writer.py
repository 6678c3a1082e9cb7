"""Writes one checkpoint: each rank its own part with its SHA-256, rank 0 the manifest and the final name.

All ranks write to a hidden folder. Every file is flushed to disk before rank 0 adds the manifest and renames the
folder, so a kill, a full disk or a power failure at any moment leaves the former checkpoints as they were.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import serialization
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from trainer.common.files import fsync_directory, sha256_of
from trainer.pytorch.checkpoints import folders
from trainer.pytorch.checkpoints.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from torch.distributed.checkpoint.metadata import Metadata
    from torch.distributed.checkpoint.planner import SavePlan, SavePlanner


logger = logging.getLogger(__name__)

_MOST_FILES = 4
_BYTES_OF_A_FILE = 1 << 26
"""A rank writes another file, in a thread of its own, for each so many bytes."""


@dataclass(frozen=True, kw_only=True)
class Save:
    """The state to save, and its target."""

    partial: Path
    """The hidden folder to write to."""
    target: Path
    """Its name once it is complete."""
    step: int
    world_size: int
    settings: dict[str, Any]
    size_bytes: int
    """About what it takes on the volume: the tensors that this rank knows of."""
    cores: int = 1
    """CPUs that this rank may use."""

    @property
    def files(self) -> int:
        """Number of files that this rank writes at once: writing and hashing keep one core each from a quick disk."""
        return max(1, min(_MOST_FILES, self.cores, self.size_bytes // self.world_size // _BYTES_OF_A_FILE))


@dataclass(frozen=True)
class _HashedResult(WriteResult):
    sha256: str
    """Of the file that the tensor is in."""


class CheckpointWriter(FileSystemWriter):
    """A storage writer of torch.distributed.checkpoint; it can be sent to another process."""

    def __init__(self, save: Save) -> None:
        super().__init__(save.partial, thread_count=save.files, sync_files=True, overwrite=False)  # pyright: ignore[reportUnknownMemberType]
        self._save = save

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's part and hash it: every rank its own, so that the time does not grow with the ranks."""
        with _without_crc32():
            results = super().write_data(plan, planner).wait()
        names = sorted({result.storage_data.relative_path for result in results})
        with ThreadPoolExecutor(self._save.files) as threads:
            paths = (self._save.partial / name for name in names)
            hashes = dict(zip(names, threads.map(sha256_of, paths), strict=True))
        hashed: Future[list[WriteResult]] = Future()
        hashed.set_result(
            [
                _HashedResult(
                    index=result.index,
                    size_in_bytes=result.size_in_bytes,
                    storage_data=result.storage_data,
                    sha256=hashes[result.storage_data.relative_path],
                )
                for result in results
            ]
        )
        return hashed

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the manifest and publish the folder; torch calls it on rank 0 when all ranks have written."""
        super().finish(metadata, results)
        save = self._save
        known = {
            result.storage_data.relative_path: result.sha256
            for of_rank in results
            for result in of_rank
            if isinstance(result, _HashedResult)
        }
        sizes = {file.name: file.stat().st_size for file in save.partial.iterdir()}
        # the rest: torch's own metadata, and empty files of ranks that had nothing to write
        sha256 = {name: known.get(name) or sha256_of(save.partial / name) for name in sizes}
        manifest = Manifest(
            step=save.step, world_size=save.world_size, settings=save.settings, sizes=sizes, sha256=sha256
        )
        manifest.write(save.partial)
        _publish(save)
        fsync_directory(save.target.parent)


@contextmanager
def _without_crc32() -> Generator[None]:
    """Keep torch from writing checksums of its own, which take a third of its time: the files have a SHA-256."""
    former = serialization.get_crc32_options()
    serialization.set_crc32_options(compute_crc32=False)
    try:
        yield
    finally:
        serialization.set_crc32_options(former)


def _publish(save: Save) -> None:
    """Give a complete checkpoint its name.

    Another process of the run may have saved that step meanwhile: one that outlived its start, or a second start by
    mistake. It has the same settings, so its checkpoint is as good.
    """
    try:
        save.partial.rename(save.target)
    except OSError:
        if not save.target.is_dir():
            raise
        fix = "if that is another start of the run, give it another --run_name"
        logger.warning("%s: another process has saved this step meanwhile. Fix: %s", save.target, fix)
        folders.remove(save.partial)
