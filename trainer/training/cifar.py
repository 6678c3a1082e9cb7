"""The CIFAR-10 binary files: reading, writing and validation. Needs neither TensorFlow nor torch.

Source: "The CIFAR-10 dataset", A. Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version": records of
one label byte and 3072 bytes of pixels (1024 red, 1024 green, 1024 blue, row by row), no header; data_batch_1.bin to
data_batch_5.bin for training, test_batch.bin, and the names of the ten classes in batches.meta.txt.
The published files hold 10,000 records each; here a file may hold any number from 1.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from trainer.common.files import sha256_of
from trainer.training.digits import DataError, refuse_labels

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

IMAGE_SHAPE = (3, 32, 32)
NUM_CLASSES = 10
RECORD_BYTES = 1 + 3 * 32 * 32

FOLDER = "cifar-10-batches-bin"
NAMES_FILE = "batches.meta.txt"
TRAIN_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILE = "test_batch.bin"

SplitName = Literal["train", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "test")


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Images uint8 [N, 3, 32, 32] and labels uint8 [N] with values 0..9."""

    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.labels)


def files_of(data_dir: Path, split: SplitName) -> tuple[Path, ...]:
    """Return the files of a split in the order of their records, whether they exist or not."""
    names = TRAIN_FILES if split == "train" else (TEST_FILE,)
    return tuple(data_dir / FOLDER / name for name in names)


def encode(samples: Samples) -> bytes:
    """Return the content of a file with these samples."""
    records = np.empty((len(samples), RECORD_BYTES), dtype=np.uint8)
    records[:, 0] = samples.labels
    records[:, 1:] = samples.images.reshape(len(samples), -1)
    return records.tobytes()


def count_records(path: Path) -> int:
    """Return the number of records in a file, from its size alone.

    Raises:
        DataError: the file is missing, empty, or ends within a record.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}. {_fix(path)}") from error
    if size == 0 or size % RECORD_BYTES:
        limit = f"must be a multiple of {RECORD_BYTES} (1 label, 3072 pixels) and not 0"
        raise DataError(f"{path}: size is {size} bytes, {limit}. {_fix(path)}")
    return size // RECORD_BYTES


def read_records(path: Path) -> NDArray[np.uint8]:
    """Return the records of a file as they are, uint8 [N, 3073], the label first.

    Raises:
        DataError: the file is missing or of a wrong size, or a label is not 0..9.
    """
    count = count_records(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}. {_fix(path)}") from error
    if len(content) != count * RECORD_BYTES:
        raise DataError(f"{path}: changed from {count * RECORD_BYTES} to {len(content)} bytes. {_fix(path)}")
    records = np.frombuffer(content, dtype=np.uint8).reshape(count, RECORD_BYTES)
    refuse_labels(records[:, 0], NUM_CLASSES, of=path, fix=_fix(path))
    return records


def load_records(data_dir: Path, split: SplitName) -> NDArray[np.uint8]:
    """Return all records of a split, uint8 [N, 3073].

    Raises:
        DataError: see `read_records`.
    """
    return np.concatenate([read_records(path) for path in files_of(data_dir, split)])


def load(data_dir: Path, split: SplitName) -> Samples:
    """Return a split as images and labels.

    Raises:
        DataError: see `read_records`.
    """
    records = load_records(data_dir, split)
    return Samples(images=records[:, 1:].reshape(-1, *IMAGE_SHAPE), labels=records[:, 0])


def has_names(data_dir: Path) -> bool:
    """Return whether the file with the names of the classes is there."""
    return (data_dir / FOLDER / NAMES_FILE).exists()


def load_names(data_dir: Path) -> tuple[str, ...]:
    """Return the names of the ten classes.

    Raises:
        DataError: the file is missing, is not text, or does not hold ten names.
    """
    return _read_names(data_dir / FOLDER / NAMES_FILE)


def _read_names(path: Path) -> tuple[str, ...]:
    try:
        # split at line feeds alone: str.splitlines would also cut a name at other separators
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}. {_fix(path)}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8. {_fix(path)}") from error
    names = tuple(line.strip() for line in lines if line.strip())
    if len(names) != NUM_CLASSES:
        raise DataError(f"{path}: names {len(names)} classes, must be {NUM_CLASSES}, one per line. {_fix(path)}")
    return names


def find_damage(data_dir: Path) -> str:
    """Say what is wrong with the data set; an empty string when every file can be used."""
    try:
        for split in SPLITS:
            load_records(data_dir, split)
        load_names(data_dir)
    except DataError as error:
        return str(error)
    return ""


def is_damaged(path: Path) -> bool:
    """Return whether a file of the data set cannot be used."""
    try:
        _read_names(path) if path.name == NAMES_FILE else read_records(path)
    except DataError:
        return True
    return False


def fingerprint(data_dir: Path) -> str:
    """Return a SHA-256 over all samples: two runs with the same value saw the same ones."""
    paths = [path for split in SPLITS for path in files_of(data_dir, split)]
    return hashlib.sha256("".join(map(sha256_of, paths)).encode()).hexdigest()


def _fix(path: Path) -> str:
    """Say what to do about a file: where others are present, `prepare_data` would refuse or replace them."""
    data_dir = path.parent.parent
    pytorch = f"python -m trainer.prepare_data --dataset cifar10 --data_dir {data_dir}"
    small = f"`{pytorch}`, with the TensorFlow image `python -m trainer.tf.prepare_data --data_dir {data_dir}`"
    if any((path.parent / name).exists() for name in (*TRAIN_FILES, TEST_FILE, NAMES_FILE)):
        return f"Fix: copy that file there again, which for a small set does {small}"
    return f"Fix: put the data set there, or write a small one: {small}"
