"""Atomic and durable writes of files that other processes read."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import uuid
from pathlib import Path
from typing import Any, cast

logger = logging.getLogger(__name__)


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path, through all links on its way, ends in a folder: now, so look when all links are there."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    except (RecursionError, ValueError):  # a chain of thousands of links, or a name with a NUL byte
        return False


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_directory(path: Path) -> None:
    """Make names created in or renamed into a directory survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_file(path: Path) -> None:
    """Make the content of a file that somebody else wrote survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: bytes) -> None:
    """Create or replace a file: readers see the old content or the new, never a part, also after a crash.

    Safe when several processes write the same path at once: the last one wins as a whole.

    Raises:
        OSError: the folder is missing, read-only or full; the old content is untouched.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def write_json_atomically(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON document like `write_atomically`, indented and with a stable order of keys."""
    write_atomically(path, (json.dumps(document, indent=2, sort_keys=True) + "\n").encode())


def fix_of(error: OSError) -> str:
    """Return the fix for a failed write, by its error number; a message has it after "Fix: "."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "more space on that volume, or delete files there that you no longer need"
        case errno.EFBIG:
            return "a file system, or a limit (ulimit -f), that allows files of this size"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "mount the volume writable for this user"
        case errno.ENOTDIR | errno.EEXIST:
            return "another folder, or remove the file that has the name of a folder"
        case _:
            return "look at that volume, and at what serves it"


def remember_number(path: Path, name: str, number: int) -> None:
    """Write a whole number for `read_number`; warn where it cannot be written, since no run must end of that."""
    try:
        write_json_atomically(path, {name: number})
    except OSError as error:
        logger.warning("%s: not written: %s", path, error)


def read_number(path: Path, name: str) -> int:
    """Return a whole number of a JSON object, or 0 where the file is missing, unreadable or has no such number."""
    number = (read_json(path) or {}).get(name)
    return number if isinstance(number, int) else 0


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object, or None where the file is missing, unreadable or something else."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None
