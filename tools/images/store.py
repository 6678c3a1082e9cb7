"""The store of images in the cache, and the lock for changes to it."""

from __future__ import annotations

import fcntl
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tools.images.oci import Layout
from tools.paths import paths

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


def images_folder() -> Path:
    """Return the folder that holds everything about images in the cache."""
    return paths().cache / "images"


@contextmanager
def open_layout() -> Generator[Layout]:
    """Give the layout of all images to one process at a time."""
    with _locked("lock"):
        yield Layout(images_folder() / "layout")


def look_at_layout() -> Layout:
    """Return the layout to look something up in, even while another process changes it for minutes."""
    return Layout(images_folder() / "layout")


@contextmanager
def pull_folder() -> Generator[Path]:
    """Give an empty folder for pulled images to one process at a time; the layout stays free for others meanwhile."""
    with _locked("pull.lock"):
        folder = images_folder() / "pulling"
        shutil.rmtree(folder, ignore_errors=True)  # what a killed process left
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(name: str) -> Generator[None]:
    """Hold a lock of the folder; the kernel frees it when its holder is killed."""
    folder = images_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
