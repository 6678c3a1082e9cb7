"""The one folder of built images in the cache, and who may change it when."""

from __future__ import annotations

import fcntl
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
    """Give the layout of built images to one process at a time. The kernel frees the lock of a killed process."""
    folder = images_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Layout(folder / "layout")
