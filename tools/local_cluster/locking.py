"""The lock of a cluster: one `up`, `stop` or `down` at a time."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@contextmanager
def exclusive(folder: Path) -> Generator[None]:
    """Hold the folder's lock while the block runs, waiting for it; the kernel frees it when its holder is killed."""
    handle = _acquire(folder)
    try:
        yield
    finally:
        os.close(handle)


def _acquire(folder: Path) -> int:
    file = folder / "lock"
    while True:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # a `down` removed the folder just now
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(handle), file.stat()):
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)  # the `down` that was waited for removed this file: lock the new one
