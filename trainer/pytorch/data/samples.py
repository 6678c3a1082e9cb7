"""Small data sets in formats that are read during training: for first steps, tests and benchmarks."""

from __future__ import annotations

import io
import shutil
import uuid
from typing import TYPE_CHECKING

import numpy as np

from trainer.common.files import write_atomically
from trainer.pytorch.data import token_files
from trainer.pytorch.data.image_files import FOLDERS, list_images
from trainer.training import digits
from trainer.training.digits import SPLITS, DataError, SplitName

if TYPE_CHECKING:
    from collections.abc import Mapping
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
        DataError: what is there is damaged or of somebody else and without a description, or the folder cannot be
            written.
    """
    if not (data_dir / token_files.DESCRIPTION).exists():
        sums: dict[SplitName, NDArray[np.uint16]] = {split: _sums(split) for split in SPLITS}
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
            _refuse_tokens_of_others(data_dir, sums)
            token_files.write(data_dir, sums, vocabulary=BYTES)
        except OSError as error:
            raise _unwritable(data_dir, error) from error
    train, held_out = (token_files.open_file(data_dir, split).tokens for split in SPLITS)
    return train, held_out


def prepare_images(data_dir: Path) -> tuple[int, int]:
    """Write the handwritten digits as PNG files in folders "0" to "9", unless there are images already.

    Returns:
        The numbers of images, for training and held out.

    Raises:
        DataError: what is there is not a folder for each class, or is of somebody else and has no held-out images, or
            the folder cannot be written.
    """
    if not (data_dir / FOLDERS["held_out"]).exists():
        try:
            _refuse_images_of_others(data_dir)
            _write_images(data_dir / FOLDERS["train"], digits.from_source("train"))
            _write_held_out_images(data_dir / FOLDERS["held_out"])
        except OSError as error:
            raise _unwritable(data_dir, error) from error
    train, held_out = (len(list_images(data_dir, split).names) for split in SPLITS)
    return train, held_out


def _refuse_tokens_of_others(data_dir: Path, sums: Mapping[SplitName, NDArray[np.uint16]]) -> None:
    """Refuse to replace tokens that only lack their description; those of a killed attempt of ours are replaced.

    Raises:
        DataError: a file has other tokens.
        OSError: a file cannot be read.
    """
    for split in SPLITS:
        path = data_dir / token_files.FILES[split]
        if path.exists() and path.read_bytes() != token_files.encode(sums[split], vocabulary=BYTES):
            limit = f"has tokens of another origin and no {token_files.DESCRIPTION}; they are not replaced"
            raise DataError(f"{path}: {limit}. {token_files.fix(data_dir)}, or for the small set another --data_dir")


def _refuse_images_of_others(data_dir: Path) -> None:
    """Refuse to add images to those of somebody else; those of a killed attempt of ours are completed.

    Raises:
        DataError: there is something that `_write_images` does not write.
    """
    folder = data_dir / FOLDERS["train"]
    # hidden ones are what a killed attempt leaves
    present = [path for path in folder.rglob("[!.]*") if not path.is_dir()]
    if not present:
        return
    source = digits.from_source("train")
    own = {folder / _name(number, label): source.images[number] for number, label in enumerate(source.labels)}
    other = next((path for path in present if path not in own or not _shows(path, own[path])), None)
    if other is not None:
        held_out = data_dir / FOLDERS["held_out"]
        limit = f"is a file of another origin, and {held_out} is missing; nothing is added"
        raise DataError(f"{other}: {limit}. Fix: add {held_out} with the same classes, or another --data_dir")


def _shows(path: Path, image: NDArray[np.float32]) -> bool:
    """Return whether a file is an image float32 [1, 8, 8] as `_write_images` stores it."""
    from PIL import Image  # noqa: PLC0415

    try:
        with Image.open(path) as stored:
            return np.array_equal(np.asarray(stored), _pixels(image))
    except (OSError, SyntaxError, ValueError):
        return False


def _sums(split: SplitName) -> NDArray[np.uint16]:
    generator = np.random.default_rng(SPLITS.index(split))
    pairs = generator.integers(0, 100, (_LINES[split], 2)).tolist()
    text = "".join(f"{first}+{second}={first + second}\n" for first, second in pairs)
    return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.uint16)


def _write_images(folder: Path, source: digits.Digits) -> None:
    # imported here, for other data sets do not need it
    from PIL import Image  # noqa: PLC0415

    for number, (image, label) in enumerate(zip(source.images, source.labels, strict=True)):
        target = folder / _name(number, label)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        Image.fromarray(_pixels(image)).save(content, format="PNG")
        write_atomically(target, content.getvalue())


def _write_held_out_images(folder: Path) -> None:
    """Write them at once, and last: their folder is what says that a killed attempt need not be done again."""
    new = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:12]}")
    try:
        _write_images(new, digits.from_source("held_out"))
        new.rename(folder)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        if not folder.exists():  # else another process was faster
            raise


def _name(number: int, label: np.int64) -> str:
    return f"{label}/{number:04d}.png"


def _pixels(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.rint(image[0] * _MAX_BYTE).astype(np.uint8)


def _unwritable(data_dir: Path, error: OSError) -> DataError:
    fix = "Fix: mount the volume writable, with space"
    return DataError(f"data_dir={data_dir}: cannot write the data set: {error}. {fix}")
