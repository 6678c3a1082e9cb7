"""Mounts below a folder of ours, which a killed builder may leave behind."""

from __future__ import annotations

import re
from pathlib import Path

from tools.process import run

MOUNT_TABLE = Path("/proc/self/mountinfo")


def mounts_below(folder: Path) -> list[Path]:
    """Return the mount points in or at `folder`, deepest first."""
    points = [Path(_unescape(line.split(" ")[4])) for line in MOUNT_TABLE.read_text(encoding="utf-8").splitlines()]
    return sorted((point for point in points if point.is_relative_to(folder)), reverse=True)


def unmount_below(folder: Path) -> None:
    """Unmount everything in or at `folder`.

    Raises:
        CommandError: a mount is in use.
    """
    for point in mounts_below(folder.resolve()):
        run(["umount", point])


def _unescape(field: str) -> str:
    r"""Decode the octal escapes of proc(5), as in a\040b."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
