"""The handwritten digits: their source, their split, and their files on the volume.

Needs no torch, so that tools outside the pods can draw the same held-out digits.

Source: the 1,797 images of 8x8 pixels, 16 grey levels, in scikit-learn's `load_digits`, which is the test part of
"Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998).
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from trainer.common.files import read_json, sha256_of, write_atomically, write_json_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

IMAGE_SHAPE = (1, 8, 8)
NUM_CLASSES = 10
FOLDER = "digits"
MANIFEST = "manifest.json"
FORMAT_VERSION = 1

_MAX_GREY = 16.0
_HELD_OUT_EVERY = 5

Labels = TypeVar("Labels")
SplitName = Literal["train", "held_out"]
SPLITS: tuple[SplitName, ...] = ("train", "held_out")


class DataError(Exception):
    """The data set is missing, damaged or cannot be written; the message says which file and what to do."""


@dataclass(frozen=True, kw_only=True)
class Digits:
    """Images float32 [N, 1, 8, 8] with values 0..1, and labels int64 [N] with values 0..9."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def from_source(split: SplitName) -> Digits:
    """Return one split, straight from scikit-learn; the same on every machine."""
    # imported here because reading prepared files does not need it and it takes seconds
    from sklearn.datasets import load_digits  # noqa: PLC0415

    source = cast("Any", load_digits())
    images = (np.asarray(source.data, dtype=np.float32) / np.float32(_MAX_GREY)).reshape(-1, *IMAGE_SHAPE)
    labels = np.asarray(source.target, dtype=np.int64)
    held_out = held_out_mask(labels)
    chosen = held_out if split == "held_out" else ~held_out
    return Digits(images=images[chosen], labels=labels[chosen])


def held_out_mask(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Choose the held-out samples: every fifth one of each class, in the order of the source.

    Per class, because long runs of the source are ordered 0..9: every fifth sample would be only zeros and fives.
    No random numbers, so that no change of a generator can ever move a sample from one side to the other.
    """
    mask = np.zeros(len(labels), dtype=np.bool_)
    for label in range(NUM_CLASSES):
        mask[np.flatnonzero(labels == label)[::_HELD_OUT_EVERY]] = True
    return mask


def prepare(data_dir: Path) -> Path:
    """Write both splits and a manifest under `<data_dir>/digits`, unless they are there and intact.

    Any number of processes may do this at once, and any may be killed: all write the same
    content, and each file appears whole, the manifest last.

    Returns:
        The folder.

    Raises:
        DataError: the folder cannot be written.
    """
    folder = data_dir / FOLDER
    if not find_damage(folder):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[str, dict[str, Any]] = {}
        for split in SPLITS:
            digits = from_source(split)
            for name, array in ((f"{split}_images.npy", digits.images), (f"{split}_labels.npy", digits.labels)):
                content = _npy(array)
                write_atomically(folder / name, content)
                files[name] = {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        manifest = {"format_version": FORMAT_VERSION, "source": "scikit-learn load_digits", "files": files}
        write_json_atomically(folder / MANIFEST, manifest)
    except OSError as error:
        message = f"data_dir={data_dir}: cannot write the data set: {error}. Fix: mount the volume writable, with space"
        raise DataError(message) from error
    return folder


def load(data_dir: Path, split: SplitName) -> Digits:
    """Return one prepared split after comparing its files with the manifest.

    Raises:
        DataError: the folder, a file or the manifest is missing, or a SHA-256 differs.
    """
    folder = data_dir / FOLDER
    damage = find_damage(folder)
    if damage:
        fix = f"Fix: run `python -m trainer.prepare_data --data_dir {data_dir}`"
        raise DataError(f"data_dir={data_dir}: {damage}. {fix}")
    images, labels = folder / f"{split}_images.npy", folder / f"{split}_labels.npy"
    digits = Digits(images=np.load(images), labels=np.load(labels))
    refuse_labels(digits.labels, NUM_CLASSES, of=labels)
    return digits


def unknown_labels(labels: Labels, classes: int, not_counted: int | None = None) -> Labels:
    """Return which labels are neither 0 to `classes` - 1 nor `not_counted`: bool, as the array or tensor of labels."""
    values: Any = labels
    outside = (values < 0) | (values >= classes)
    return outside if not_counted is None else outside & (values != not_counted)


def refuse_labels(  # noqa: PLR0913  what is checked, and how it is named
    labels: Any,  # noqa: ANN401  an array or a tensor
    classes: int,
    *,
    not_counted: int | None = None,
    of: object = "",
    first: int | None = 0,
    fix: str = "Fix: such labels alone, or leave these samples out",
) -> None:
    """Refuse unknown labels, for which a GPU would end the process without a word.

    Args:
        labels: Integers [N, ...], an array or a tensor, whose device is waited for.
        classes: How many values they may have, from 0 on.
        not_counted: One that they may have besides.
        of: What has them, such as a file.
        first: Number of the first sample; None where nobody knows.
        fix: What helps, after "Fix: ".

    Raises:
        DataError: naming the first one.
    """
    wrong = unknown_labels(labels, classes, not_counted)
    if not wrong.any():
        return
    if not isinstance(labels, np.ndarray):
        labels, wrong = labels.numpy(force=True), wrong.numpy(force=True)
    place = tuple(np.argwhere(wrong)[0])
    number = "" if first is None else f" of sample {first + place[0]}"
    besides = "" if not_counted is None else f", nor {not_counted} for what is not counted"
    what = f"label {labels[place]}{number}, one of {wrong.sum()} that are not 0 to {classes - 1}{besides}"
    raise DataError(f"{of}{': ' if of else ''}{what}. {fix}")


def fingerprint(data_dir: Path) -> str:
    """Return the SHA-256 of the manifest: two runs with the same value saw the same samples."""
    return sha256_of(data_dir / FOLDER / MANIFEST)


def find_damage(folder: Path) -> str:
    """Say what is wrong with a prepared folder; an empty string when it is intact."""
    manifest = read_json(folder / MANIFEST)
    if manifest is None:
        return f"{folder / MANIFEST} is missing or not JSON"
    if manifest.get("format_version") != FORMAT_VERSION:
        return f"{folder / MANIFEST} has format_version {manifest.get('format_version')}, expected {FORMAT_VERSION}"
    files: dict[str, dict[str, Any]] = manifest.get("files", {})
    for name in (f"{split}_{part}.npy" for split in SPLITS for part in ("images", "labels")):
        expected = files.get(name, {}).get("sha256")
        path = folder / name
        if not path.is_file():
            return f"{path} is missing"
        digest = sha256_of(path)
        if digest != expected:
            return f"{path} is damaged: sha256 {digest}, the manifest says {expected}"
    return ""


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
