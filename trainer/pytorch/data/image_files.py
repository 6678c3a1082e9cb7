"""The layout of a folder of images: <data_dir>/<split>/<class>/<image>."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.training.digits import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.training.digits import SplitName

FOLDERS: dict[SplitName, str] = {"train": "train", "held_out": "val"}
"""Names of the splits' folders, those of ImageNet."""
SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
"""Other files are left out."""
_FOLDERS_OF_SYSTEMS = ("__MACOSX", "@eaDir", "lost+found")
"""Folders that macOS adds to archives, Synology's volumes and ext4 have next to the classes."""


@dataclass(frozen=True, kw_only=True)
class ImageFiles:
    """The images of a split, in an order that is the same on every machine."""

    folder: Path
    classes: tuple[str, ...]
    """Names of the folders in `folder`, sorted; a label is a place in it."""
    names: list[str]
    """Paths below `folder`."""
    labels: list[int]
    """Label of each name."""
    left_out: list[str]
    """Paths below `folder` that look like images or classes, but are hidden or of an operating system."""


def list_images(data_dir: Path, split: SplitName) -> ImageFiles:
    """Return the images of a split; none is opened.

    Raises:
        DataError: a folder is missing, has no classes or images, or a class has no images.
    """
    folder = data_dir / FOLDERS[split]
    classes, left_out = _classes(folder)
    expected = classes if split == "train" else _classes(data_dir / FOLDERS["train"])[0]
    if classes != expected:
        only = ", ".join(sorted(set(classes) ^ set(expected))[:3])
        fix = "Fix: a folder for the same classes in both"
        raise DataError(f"data_dir={data_dir}: {only}: in one of train and val only. {fix}")
    names: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        files = sorted(each for each in _names(folder / name) if each.lower().endswith(SUFFIXES))
        images = [each for each in files if not each.startswith(".")]
        if not images:
            raise DataError(f"{folder / name}: has no images ({', '.join(SUFFIXES)}). Fix: add some, or remove it")
        names += [f"{name}/{image}" for image in images]
        labels += [label] * len(images)
        left_out += [f"{name}/{each}" for each in files if each.startswith(".")]
    return ImageFiles(folder=folder, classes=classes, names=names, labels=labels, left_out=left_out)


def _classes(folder: Path) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of the classes, and the folders that are none."""
    folders = sorted(name for name in _names(folder) if (folder / name).is_dir())
    left_out = [name for name in folders if name.startswith(".") or name in _FOLDERS_OF_SYSTEMS]
    classes = tuple(name for name in folders if name not in left_out)
    if len(classes) < 2:
        fix = "Fix: a folder for each class, at least two"
        raise DataError(f"{folder}: has {len(classes)} folders of classes. {fix}")
    return classes, left_out


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  a million entries, of which only names are needed
    except OSError as error:
        fix = "Fix: <data_dir>/train/<class>/ and <data_dir>/val/<class>/ with images"
        raise DataError(f"{folder}: cannot be listed: {error.strerror}. {fix}") from error
