"""The handwritten digits as a small data set in CIFAR-10's format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trainer.common.files import write_atomically
from trainer.training import cifar, digits

if TYPE_CHECKING:
    from pathlib import Path

# From 8x8 to 32x32: every pixel becomes a square.
_ENLARGED = 4
_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def prepare(data_dir: Path) -> Path:
    """Write the files unless all are there and usable: a real CIFAR-10 is left alone.

    Any number of processes may do this at once, and any may be killed: all write the same
    content, and each file appears whole.

    Returns:
        The folder.

    Raises:
        digits.DataError: the folder cannot be written.
    """
    folder = data_dir / cifar.FOLDER
    if not cifar.find_damage(data_dir):
        return folder
    train, held_out = _enlarge(digits.from_source("train")), _enlarge(digits.from_source("held_out"))
    count = len(cifar.TRAIN_FILES)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # every fifth sample to each file: none of them lacks a class, though the source has ordered stretches
        for number, path in enumerate(cifar.files_of(data_dir, "train")):
            part = slice(number, None, count)
            write_atomically(path, cifar.encode(cifar.Samples(images=train.images[part], labels=train.labels[part])))
        write_atomically(folder / cifar.TEST_FILE, cifar.encode(held_out))
        write_atomically(folder / cifar.NAMES_FILE, ("\n".join(_NAMES) + "\n\n").encode())
    except OSError as error:
        message = f"data_dir={data_dir}: cannot write the data set: {error}. Fix: mount the volume writable, with space"
        raise digits.DataError(message) from error
    return folder


def _enlarge(source: digits.Digits) -> cifar.Samples:
    grey = np.rint(source.images * 255).astype(np.uint8)
    large = grey.repeat(_ENLARGED, axis=2).repeat(_ENLARGED, axis=3)
    return cifar.Samples(images=large.repeat(3, axis=1), labels=source.labels.astype(np.uint8))
