"""`complete.json`, the manifest of a checkpoint: written last, so a checkpoint without it was never finished.

Version 1 had the sizes of the files; version 2 adds their SHA-256. Sizes stay where they were, so an older release
reads version 2, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

from trainer.common.files import sha256_of, write_json_atomically
from trainer.pytorch.checkpoints.errors import CheckpointError, DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MANIFEST = "complete.json"
FORMAT_VERSION = 2
_SIZES_ONLY = 1
_NO_SUCH_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""Errors of a file system that say what is there; any other one may be gone at the next attempt."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The manifest of a checkpoint."""

    step: int
    world_size: int
    """Ranks of the run that wrote it."""
    settings: dict[str, Any]
    """Settings that must be equal for a resumed run to continue the same curve; JSON values."""
    sizes: dict[str, int]
    """Bytes of each file, by name."""
    sha256: dict[str, str]
    """64 hex digits for each file, by name; empty in checkpoints of version 1."""

    def write(self, folder: Path) -> None:
        """Write the manifest, whole or not at all.

        Raises:
            OSError: the folder cannot be written.
        """
        document = {
            "format_version": FORMAT_VERSION,
            "step": self.step,
            "world_size": self.world_size,
            "settings": self.settings,
            "files": self.sizes,
            "sha256": self.sha256,
        }
        write_json_atomically(folder / MANIFEST, document)

    def check_sizes(self, folder: Path) -> None:
        """Compare the sizes of all files.

        Raises:
            DamagedError: one is missing or has another size.
            CheckpointError: the volume does not say.
        """
        for name, size in self.sizes.items():
            try:
                actual = (folder / name).stat().st_size
            except OSError as error:
                _refuse(folder / name, error)
            if actual != size:
                raise DamagedError(f"{name} has {actual:,} bytes instead of {size:,}")

    def check_content(self, folder: Path, names: Iterable[str]) -> None:
        """Compare the SHA-256 of these files of the manifest.

        Raises:
            DamagedError: one is missing or has different content.
            CheckpointError: one cannot be read now.
        """
        for name in names:
            try:
                actual = sha256_of(folder / name)
            except OSError as error:
                _refuse(folder / name, error)
            if actual != self.sha256[name]:
                raise DamagedError(f"{name} has SHA-256 {actual[:12]}… instead of {self.sha256[name][:12]}…")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a checkpoint.

    Raises:
        DamagedError: it is missing or not a manifest.
        CheckpointError: a later release wrote it, or it cannot be read now.
    """
    document = _read_object(folder / MANIFEST)
    version = document.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        limit = f"this release reads {_SIZES_ONLY} to {FORMAT_VERSION}"
        raise CheckpointError(f"{folder}: format_version={version}: {limit}. Fix: the image that wrote it, or a later")
    try:
        hashes = {} if version == _SIZES_ONLY else {name: str(document["sha256"][name]) for name in document["files"]}
        manifest = Manifest(
            step=int(document["step"]),
            world_size=int(document["world_size"]),
            settings=cast("dict[str, Any]", document["settings"]),
            sizes={str(name): int(size) for name, size in document["files"].items()},
            sha256=hashes,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"{MANIFEST} is not complete: {error!r}") from error
    return manifest


def _read_object(path: Path) -> dict[str, Any]:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        _refuse(path, error)
    except ValueError as error:
        raise DamagedError(f"{path.name} is not JSON") from error
    if not isinstance(document, dict):
        raise DamagedError(f"{path.name} is not a JSON object")
    return cast("dict[str, Any]", document)


def _refuse(path: Path, error: OSError) -> NoReturn:
    """Take a file that is not there for damage, and no other error: a restart may find the volume well again.

    Raises:
        DamagedError, CheckpointError: see above.
    """
    if isinstance(error, _NO_SUCH_FILE):
        raise DamagedError(f"{path.name}: {error.strerror}") from error
    fix = "Fix: start again once the volume answers and this user may read it; the checkpoint was left as it is"
    raise CheckpointError(f"{path}: cannot be read: {error.strerror}. {fix}") from error
