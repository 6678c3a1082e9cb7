"""Small data sets in the formats that are read while training runs: for first steps, tests and benchmarks."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from trainer.common.files import write_atomically
from trainer.pytorch.data import token_files
from trainer.pytorch.data.image_files import FOLDERS, list_images
from trainer.training import digits
from trainer.training.digits import SPLITS, DataError, SplitName

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

BYTES = 256
"""Vocabulary of the tokens: each is a byte."""
_LINES: dict[SplitName, int] = {"train": 8000, "held_out": 1000}
_MAX_BYTE = 255.0


def prepare_tokens(data_dir: Path) -> tuple[int, int]:
    """Write lines such as "27+15=42" as tokens, unless there are tokens already; the same on every machine.

    Returns:
        The numbers of tokens, for training and held out.

    Raises:
        DataError: what is there is damaged, or the folder cannot be written.
    """
    if not (data_dir / token_files.DESCRIPTION).exists():
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
            token_files.write(data_dir, {split: _sums(split) for split in SPLITS}, vocabulary=BYTES)
        except OSError as error:
            raise _unwritable(data_dir, error) from error
    train, held_out = (token_files.open_file(data_dir, split).tokens for split in SPLITS)
    return train, held_out


def prepare_images(data_dir: Path) -> tuple[int, int]:
    """Write the handwritten digits as PNG files in folders "0" to "9", unless there are images already.

    Returns:
        The numbers of images, for training and held out.

    Raises:
        DataError: what is there is not a folder for each class, or the folder cannot be written.
    """
    if not (data_dir / FOLDERS["held_out"]).exists():
        try:
            # the held-out ones last: a killed attempt is done again
            for split in SPLITS:
                _write_images(data_dir / FOLDERS[split], digits.from_source(split))
        except OSError as error:
            raise _unwritable(data_dir, error) from error
    train, held_out = (len(list_images(data_dir, split).names) for split in SPLITS)
    return train, held_out


def _sums(split: SplitName) -> NDArray[np.uint16]:
    generator = np.random.default_rng(SPLITS.index(split))
    pairs = generator.integers(0, 100, (_LINES[split], 2)).tolist()
    text = "".join(f"{first}+{second}={first + second}\n" for first, second in pairs)
    return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.uint16)


def _write_images(folder: Path, source: digits.Digits) -> None:
    # imported here, for other data sets do not need it
    from PIL import Image  # noqa: PLC0415

    for number, (image, label) in enumerate(zip(source.images, source.labels, strict=True)):
        target = folder / str(label)
        target.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        Image.fromarray(np.rint(image[0] * _MAX_BYTE).astype(np.uint8)).save(content, format="PNG")
        write_atomically(target / f"{number:04d}.png", content.getvalue())


def _unwritable(data_dir: Path, error: OSError) -> DataError:
    fix = "Fix: mount the volume writable, with space"
    return DataError(f"data_dir={data_dir}: cannot write the data set: {error}. {fix}")
