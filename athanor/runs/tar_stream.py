"""A tar archive in frames: the program that `athanor copy` sends to a pod as text, and its counterpart here.

A frame is its payload's length in 4 bytes, big-endian, and the payload; one of length 0 ends the archive, and the
SHA-256 of all payloads follows it. So each side knows the end without the other closing its stream, which kubectl
does not always pass on, and an archive that was cut is never taken for a whole one.

Only Python's standard library, 3.8 or later: the pod's image may be of any release. Arguments: `send PATH`, or
`send-some PATH PATTERN SINCE`, or `receive PATH NAME REPLACE` with REPLACE 0 or 1. It prints GREETING first, and
`receive` a line of JSON at its end.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import uuid
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

GREETING = b"athanor-copy 1\n"
REFUSAL = "copy: "
"""Begins the last line on standard error of a program that ended early."""
ALIVE = Path("/tmp/athanor-copy-alive")  # noqa: S108 - in a pod of its own
"""File whose age is the time without a copy: the pod ends when it is old."""
_COPY = "copy"
_FRAME_BYTES = 1 << 18
_LONGEST_FRAME_BYTES = 1 << 24


class StreamError(Exception):
    """The other side ended early, or sent something else than frames."""


class FrameWriter(io.RawIOBase):
    """Writes what an archive consists of as frames."""

    def __init__(self, stream: IO[bytes], moved: Callable[[int], None]) -> None:
        super().__init__()
        self._stream, self._moved, self._digest = stream, moved, hashlib.sha256()
        self.bytes = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer
        """Write one frame or several."""
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _FRAME_BYTES):
            part = view[start : start + _FRAME_BYTES]
            self._stream.write(len(part).to_bytes(4, "big"))
            self._stream.write(part)
            self._stream.flush()
            self._digest.update(part)
            self.bytes += len(part)
            self._moved(len(part))
        return len(view)

    def end(self) -> str:
        """Write the end; return the digest."""
        self._stream.write(bytes(4) + self._digest.digest())
        self._stream.flush()
        return self._digest.hexdigest()


class FrameReader(io.RawIOBase):
    """Reads the payloads of frames, up to the end that the other side wrote."""

    def __init__(self, stream: IO[bytes], moved: Callable[[int], None]) -> None:
        super().__init__()
        self._stream, self._moved, self._digest = stream, moved, hashlib.sha256()
        self._left, self._ended = b"", False
        self.bytes = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return that many bytes, or fewer at the end of the archive.

        Raises:
            StreamError: the stream ends before the archive does.
        """
        parts = [self._left]
        length = len(self._left)
        while not self._ended and (size < 0 or length < size):
            parts.append(self._frame())
            length += len(parts[-1])
        whole = b"".join(parts)
        end = len(whole) if size < 0 else size
        self._left = whole[end:]
        return whole[:end]

    def end(self) -> str:
        """Read to the end; return the digest, which is the sender's.

        Raises:
            StreamError: as `read`.
        """
        while self.read(_FRAME_BYTES):
            pass
        return self._digest.hexdigest()

    def _frame(self) -> bytes:
        length = int.from_bytes(self._exactly(4), "big")
        if length > _LONGEST_FRAME_BYTES:
            raise StreamError("the received data is not an archive")
        if length == 0:
            self._ended = True
            if self._exactly(self._digest.digest_size) != self._digest.digest():
                raise StreamError("the received data differs from the sent data")
            return b""
        payload = self._exactly(length)
        self._digest.update(payload)
        self.bytes += length
        self._moved(length)
        return payload

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            part = self._stream.read(size)
            if not part:
                raise StreamError("the other side ended early")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def leads_inside(name: str, target: str) -> bool:
    """Return whether a link leads to a place in its folder, whatever other links there become.

    So ".." may only come first: behind the name of a folder that is a link by now, it would lead elsewhere.
    """
    steps = [step for step in target.split("/") if step not in {"", "."}]
    up = next((at for at, step in enumerate(steps) if step != ".."), len(steps))
    is_relative = bool(target) and not target.startswith("/") and "\0" not in target
    return is_relative and up < len(PurePosixPath(name).parts) and ".." not in steps[up:]


def send(path: Path, stream: IO[bytes], moved: Callable[[int], None]) -> dict[str, Any]:
    """Write a file or a folder; a link stands for what it leads to, links inside stay links.

    Args:
        path: What is sent.
        stream: Where to.
        moved: Called with the bytes of each frame.

    Raises:
        StreamError: it does not exist.
        OSError: it cannot be read, or nobody reads the stream.
    """
    if not path.exists():
        raise StreamError(f"{path} does not exist")
    writer = FrameWriter(stream, moved)
    with tarfile.open(fileobj=writer, mode="w|", bufsize=_FRAME_BYTES) as archive:
        archive.add(str(path.resolve()), arcname=_COPY)
    return {"bytes": writer.bytes, "sha256": writer.end()}


def send_some(
    folder: Path, pattern: str, since: float, stream: IO[bytes], moved: Callable[[int], None]
) -> dict[str, Any]:
    """Write the files of a folder whose names match a pattern, at any depth; none if the folder does not exist.

    Args:
        folder: Where they are.
        pattern: Such as *.json.
        since: Only those that were written at this time or later, in seconds since 1970.
        stream: Where to.
        moved: Called with the bytes of each frame.
    """
    writer = FrameWriter(stream, moved)
    with tarfile.open(fileobj=writer, mode="w|", bufsize=_FRAME_BYTES) as archive:
        top = tarfile.TarInfo(_COPY)
        top.type = tarfile.DIRTYPE
        archive.addfile(top)
        for file in sorted(folder.rglob(pattern)):
            if file.is_file() and not file.is_symlink() and file.stat().st_mtime >= since:
                _add_growing(archive, file, f"{_COPY}/{file.relative_to(folder)}")
    return {"bytes": writer.bytes, "sha256": writer.end()}


def _add_growing(archive: tarfile.TarFile, file: Path, name: str) -> None:
    """Add as much of a file as there is now: its program may be writing."""
    with file.open("rb") as reading:
        member = archive.gettarinfo(arcname=name, fileobj=reading)
        archive.addfile(member, reading)


def receive(
    target: Path, name: str, stream: IO[bytes], moved: Callable[[int], None], *, replace: bool
) -> dict[str, Any]:
    """Create a file or a folder: all of it under a name of its own first, then under its own at once.

    Args:
        target: Its path; a folder that exists gets it inside.
        name: What it is called there.
        stream: Where it comes from.
        moved: Called with the bytes of each frame.
        replace: Whether it may exist.

    Raises:
        StreamError: it exists and may not be replaced, something in it is refused, or the stream ended early.
        OSError: it cannot be written.
    """
    path = target / name if target.is_dir() else target
    if not replace and (path.exists() or path.is_symlink()):
        raise StreamError(f"{path} exists")
    path.parent.mkdir(parents=True, exist_ok=True)
    reader = FrameReader(stream, moved)
    partial = path.parent / f".{path.name[:100]}.{uuid.uuid4().hex[:12]}.partial"
    try:
        try:
            with tarfile.open(fileobj=reader, mode="r|", bufsize=_FRAME_BYTES) as archive:
                _extract(archive, partial)
        except tarfile.TarError as error:
            raise StreamError(f"{path} was not copied: {error}") from None
        digest = reader.end()
        _put(partial / _COPY, path)
    finally:
        shutil.rmtree(str(partial), ignore_errors=True)
    return {"path": str(path), "bytes": reader.bytes, "sha256": digest}


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Write files, folders and links, none of which leads out of the folder.

    tarfile's own filters (PEP 706) are not in every Python of an image: Debian 12 has 3.11.2.
    """
    folder.mkdir()
    for member in archive:
        name = _name_inside(member.name)
        path = folder / member.name
        if any((folder / parent).is_symlink() for parent in Path(member.name).parents):
            raise StreamError(f"{member.name} lies behind a link")
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
        elif member.isreg():
            _write(archive, member, path)
        elif member.issym():
            if not leads_inside(name, member.linkname):
                raise StreamError(f"{member.name} is a link that may lead out of what is copied")
            path.symlink_to(member.linkname)
        elif member.islnk() and _is_file(own := folder / _COPY / _name_inside(member.linkname)):
            shutil.copy2(str(own), str(path))
        else:
            raise StreamError(f"{member.name} is not a file, a folder or a link")


def _name_inside(name: str) -> str:
    """Return a name in an archive as it is in what is copied; of that itself an empty one.

    Raises:
        StreamError: it is of something else.
    """
    parts = PurePosixPath(name).parts
    if parts[:1] != (_COPY,) or ".." in parts or "\0" in name:
        raise StreamError(f"{name} leads out of what is copied")
    return "/".join(parts[1:])


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = archive.extractfile(member)
    assert content
    with content, path.open("xb") as writing:
        shutil.copyfileobj(content, writing, _FRAME_BYTES)
    # Others may read it, and never write it; its owner both.
    path.chmod(member.mode & 0o755 | 0o600)
    os.utime(str(path), (member.mtime, member.mtime))


def _put(new: Path, path: Path) -> None:
    """Give what is whole its name. What was there before goes only when it has another: a failure loses neither."""
    if path.is_symlink() or not path.is_dir():
        new.replace(path)
        return
    old = new.with_name("replaced")
    path.rename(old)
    try:
        new.rename(path)
    except OSError:
        old.rename(path)
        raise


def _alive(_moved: int) -> None:
    with suppress(OSError):  # the pod of a run has no such file
        os.utime(str(ALIVE))


def main(arguments: list[str]) -> str | None:
    """Copy over standard input and output; return what went wrong."""
    sys.stdout.buffer.write(GREETING)
    sys.stdout.buffer.flush()
    path = Path(arguments[1])
    try:
        if arguments[0] == "send":
            send(path, sys.stdout.buffer, _alive)
        elif arguments[0] == "send-some":
            send_some(path, arguments[2], float(arguments[3]), sys.stdout.buffer, _alive)
        else:
            done = receive(path, arguments[2], sys.stdin.buffer, _alive, replace=arguments[3] == "1")
            print(json.dumps(done), flush=True)
    except (StreamError, OSError) as error:
        return f"{REFUSAL}{error}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
