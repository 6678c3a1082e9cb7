"""Image layers: deterministic tars of one binary or of a folder tree. Owned by root, one fixed time, sorted names."""

from __future__ import annotations

import stat
import struct
import tarfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.images.oci import Sink

CAP_NET_BIND_SERVICE = 10
"""Bit number of the capability, from linux/capability.h."""

_VFS_CAP_REVISION_2 = 0x02000000
_VFS_CAP_FLAGS_EFFECTIVE = 0x1


def write_binary(sink: Sink, binary: Path, *, path: str, capability: int | None = None) -> None:
    """Write a layer that holds one executable at `path`, with a file capability ("+ep") if one is given."""
    member = tarfile.TarInfo(path.lstrip("/"))
    member.size = binary.stat().st_size
    member.mode = 0o755
    if capability is not None:
        member.pax_headers = {"SCHILY.xattr.security.capability": _file_capability(capability)}
    with sink.open_tar() as archive, binary.open("rb") as content:
        for folder in reversed(PurePosixPath(member.name).parents[:-1]):
            entry = tarfile.TarInfo(str(folder))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        archive.addfile(member, content)


def write_tree(sink: Sink, root: Path, *, below: str = ".", mtime_seconds: int) -> None:
    """Write a layer of all files, folders and links under `root`/`below`, by their names relative to `root`.

    Everybody may read everything, only root may write; no program is setuid; devices and sockets are left out.
    """
    with sink.open_tar() as archive:
        for path in _walk(root / below):
            status = path.lstat()
            member = tarfile.TarInfo(path.relative_to(root).as_posix())
            member.mtime = mtime_seconds
            if stat.S_ISLNK(status.st_mode):
                member.type, member.linkname = tarfile.SYMTYPE, str(path.readlink())
                archive.addfile(member)
            elif stat.S_ISDIR(status.st_mode):
                member.type = tarfile.DIRTYPE
                member.mode = 0o1777 if status.st_mode & stat.S_ISVTX else 0o755
                archive.addfile(member)
            elif stat.S_ISREG(status.st_mode):
                member.size = status.st_size
                member.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
                with path.open("rb") as content:
                    archive.addfile(member, content)


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir(), key=lambda entry: entry.name):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _file_capability(capability: int) -> str:
    """Encode "permitted and effective" as struct vfs_cap_data of linux/capability.h does, little-endian."""
    permitted = 1 << capability
    words = (_VFS_CAP_REVISION_2 | _VFS_CAP_FLAGS_EFFECTIVE, permitted & 0xFFFFFFFF, 0, permitted >> 32, 0)
    return struct.pack("<5I", *words).decode("utf-8")
