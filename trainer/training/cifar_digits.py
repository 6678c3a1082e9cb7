"""The handwritten digits as a small data set in CIFAR-10's format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainer.common.files import write_atomically
from trainer.training import cifar, digits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# From 8x8 to 32x32: every pixel becomes a square.
_ENLARGED = 4
_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def prepare(data_dir: Path) -> Path:
    """Write the files unless all are there and usable: a real CIFAR-10 is left alone, also a damaged one.

    Any number of processes may do this at once, and any may be killed: all write the same
    content, and each file appears whole.

    Returns:
        The folder.

    Raises:
        digits.DataError: the files of another data set are damaged or incomplete, or the folder cannot be written.
    """
    folder = data_dir / cifar.FOLDER
    damage = cifar.find_damage(data_dir)
    if not damage:
        return folder
    files = _files()
    if not _may_replace(folder, files):
        limit = "there are files of another data set, of which none is replaced"
        raise digits.DataError(f"data_dir={data_dir}: {limit}. {damage}, or another --data_dir for the small set")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_atomically(folder / name, content)
    except OSError as error:
        message = f"data_dir={data_dir}: cannot write the data set: {error}. Fix: mount the volume writable, with space"
        raise digits.DataError(message) from error
    return folder


def _files() -> dict[str, bytes]:
    """Return the contents of all files by their names, in the order in which they are written."""
    train, held_out = _enlarge(digits.from_source("train")), _enlarge(digits.from_source("held_out"))
    files: dict[str, bytes] = {}
    # every fifth sample to each file: none of them lacks a class, though the source has ordered stretches
    for number, name in enumerate(cifar.TRAIN_FILES):
        part = slice(number, None, len(cifar.TRAIN_FILES))
        files[name] = cifar.encode(cifar.Samples(images=train.images[part], labels=train.labels[part]))
    return {
        **files,
        cifar.TEST_FILE: cifar.encode(held_out),
        cifar.NAMES_FILE: ("\n".join(_NAMES) + "\n\n").encode(),
    }


def _may_replace(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Return whether no file there is of another data set.

    A file that is not ours may be one of ours that was damaged: only if others there are ours, and it cannot be used.
    """
    present = [name for name in files if (folder / name).exists()]
    others = [name for name in present if not _has(folder / name, files[name])]
    return not others or (len(others) < len(present) and all(cifar.is_damaged(folder / name) for name in others))


def _has(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _enlarge(source: digits.Digits) -> cifar.Samples:
    grey = np.rint(source.images * 255).astype(np.uint8)
    large = grey.repeat(_ENLARGED, axis=2).repeat(_ENLARGED, axis=3)
    return cifar.Samples(images=large.repeat(3, axis=1), labels=source.labels.astype(np.uint8))
