"""The checkpoints of one run: starts and completes saves, finds and reads the latest valid one.

Each is a folder `step-00000200` that torch.distributed.checkpoint wrote (`writer.py`), whole or absent.
"""

from __future__ import annotations

import logging
import pickle
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_saver import save  # pyright: ignore[reportUnknownVariableType]

from trainer.common.cpu import usable_cores
from trainer.pytorch.checkpoints import folders
from trainer.pytorch.checkpoints.errors import CheckpointError, DamagedError, reasons
from trainer.pytorch.checkpoints.manifest import MANIFEST, Manifest, read_manifest
from trainer.pytorch.checkpoints.reader import CheckpointReader, load_state
from trainer.pytorch.checkpoints.settings import refuse_changed_settings
from trainer.pytorch.checkpoints.size import whole_bytes
from trainer.pytorch.checkpoints.writer import CheckpointWriter, Save
from trainer.pytorch.distributed import MainRankError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trainer.pytorch.checkpoints.config import CheckpointConfig
    from trainer.pytorch.distributed import Distributed

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class StoredCheckpoint:
    """A checkpoint to resume from."""

    path: Path
    manifest: Manifest
    saved_at: float
    """Unix time in seconds."""

    @property
    def step(self) -> int:
        """Steps done when it was saved."""
        return self.manifest.step

    @property
    def world_size(self) -> int:
        """Ranks of the run that wrote it."""
        return self.manifest.world_size


class CheckpointManager:
    """Saves and finds the checkpoints of one run. All methods but `conclude` are collective: every rank calls them."""

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
                intact and training may continue.
        """
        begin = time.monotonic()
        what = self.begin(step, state)
        if what is None:
            return 0.0
        try:
            save(state, storage_writer=CheckpointWriter(what))
        except CheckpointException as error:
            self.conclude(what, failure=reasons(error))
        else:
            self.conclude(what, failure=None)
        return time.monotonic() - begin

    def begin(self, step: int, state: dict[str, Any]) -> Save | None:
        """Create the folder of a save; None when this step is saved already.

        Raises:
            CheckpointError: it cannot be created.
        """
        target = folders.folder_of(self._folder, step)
        if self._on_main(target.exists):
            # saved before a restart, and equal: replacing it would be a moment without it
            return None
        return Save(
            partial=self._on_main(lambda: folders.make_partial(target)),
            target=target,
            step=step,
            world_size=self._distributed.world_size,
            settings=self._settings,
            size_bytes=whole_bytes(state),
            cores=max(1, usable_cores() // self._distributed.local_world_size),
        )

    def conclude(self, what: Save, *, failure: str | None) -> None:
        """Remove what a save leaves: the oldest checkpoints, or after a failure its own files. Not collective.

        Args:
            what: the save that ended.
            failure: why it failed, None if it did not.

        Raises:
            CheckpointError: it failed.
        """
        if failure is None:
            if self._distributed.is_main:
                folders.remove_surplus(self._folder, self._config)
            return
        circumstances = self._circumstances(what)
        if self._distributed.is_main:
            folders.remove(what.partial)
        raise CheckpointError(f"checkpoint of step {what.step} not saved: {failure}; {circumstances}")

    def _circumstances(self, what: Save) -> str:
        """Return circumstances that a failure does not mention: torch reports a full disk as "unexpected pos"."""
        # the other ranks may look after rank 0 has removed what is left
        if self._distributed.is_main and not what.partial.is_dir():
            fix = "Fix: if the run was started twice, another --run_name for one of them"
            return f"another process has removed its folder, as a start of the same run does. {fix}"
        usage = shutil.disk_usage(self._folder)
        space = (
            f"a checkpoint takes about {what.size_bytes / 1e6:,.1f} MB, "
            f"{usage.free / 1e6:,.0f} of {usage.total / 1e6:,.0f} MB are free in {self._folder}"
        )
        if usage.free >= what.size_bytes:
            return space
        fewer = ", or a lower --keep_latest_k" if self._config.keep_latest_k > 1 else ""
        return f"{space}. Fix: more space{fewer}"

    def find_latest(self) -> StoredCheckpoint | None:
        """Return the latest intact checkpoint, after removing what interrupted saves left behind.

        Every file is compared with its SHA-256, each rank a share of them. A damaged checkpoint is renamed, and the one
        before is taken.

        Raises:
            CheckpointError: it was written with other settings, or by a later release, or some rank cannot read it now.
        """
        self._on_main(lambda: folders.remove_leftovers(self._folder))
        are_there = bool(self._on_main(lambda: folders.by_step(self._folder)))
        while (latest := self._on_main(self._latest)) is not None:
            damage = self._damage(latest)
            if not damage:
                return latest
            self._on_main(lambda path=latest.path, damage=damage: _pass_over(path, damage))
        if are_there and self._distributed.is_main:
            logger.warning("%s: no checkpoint is intact: the run begins again at its first step", self._folder)
        return None

    def names(self, checkpoint: StoredCheckpoint) -> set[str]:
        """Return the names of all values in a checkpoint, of nested ones joined by dots.

        Raises:
            CheckpointError: it cannot be read.
        """
        return self._on_main(lambda: set(CheckpointReader(checkpoint.path).read_metadata().state_dict_metadata))

    def load(self, checkpoint: StoredCheckpoint, state: dict[str, Any]) -> None:
        """Read a checkpoint into a state of the same structure, tensors in place.

        Raises:
            CheckpointError: it does not fit the state or cannot be read.
        """
        try:
            load_state(checkpoint.path, state)
        except CheckpointException as error:
            # its content was compared before
            is_volume = any(isinstance(failure, OSError) for failure, _ in error.failures.values())
            fix = "Fix: start again" if is_volume else "Fix: remove that folder to resume from the one before"
            raise CheckpointError(f"{checkpoint.path}: cannot be loaded: {reasons(error)}. {fix}") from error

    def _on_main(self, work: Callable[[], T]) -> T:
        try:
            return self._distributed.on_main(work)
        except (OSError, pickle.UnpicklingError, MainRankError) as error:
            raise CheckpointError(f"{self._folder}: {error}") from error

    def _latest(self) -> StoredCheckpoint | None:
        """Return the latest checkpoint whose files are all there."""
        for _, path in reversed(folders.by_step(self._folder)):
            try:
                manifest = read_manifest(path)
                manifest.check_sizes(path)
            except DamagedError as error:
                _pass_over(path, str(error))
                continue
            refuse_changed_settings(path, manifest.settings, self._settings)
            return StoredCheckpoint(path=path, manifest=manifest, saved_at=(path / MANIFEST).stat().st_mtime)
        return None

    def _damage(self, stored: StoredCheckpoint) -> str:
        """Compare the files, each rank its share, and return what differs; collective.

        Raises:
            CheckpointError: some rank cannot read its share now.
        """
        answers = self._distributed.gather(self._check_share(stored))
        if unreadable := {str(each) for each in answers if isinstance(each, CheckpointError)}:
            raise CheckpointError("; ".join(sorted(unreadable)))
        return "; ".join(str(each) for each in answers if each)

    def _check_share(self, stored: StoredCheckpoint) -> CheckpointError | DamagedError | None:
        """Compare this rank's share of the files; return instead of raising, for the others wait for an answer."""
        names = sorted(stored.manifest.sha256)[self._distributed.rank :: self._distributed.world_size]
        try:
            stored.manifest.check_content(stored.path, names)
        except (CheckpointError, DamagedError) as error:
            return error
        return None


def _pass_over(path: Path, damage: str) -> None:
    kept = folders.set_aside(path)
    logger.warning("%s is damaged: %s; looking for the one before, keeping this one as %s", path, damage, kept.name)
