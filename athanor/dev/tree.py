"""A folder that is kept equal to another one: what is in it, and changes that are made only to what was seen.

What `athanor dev` runs in a pod, sent along as text, and the same code here. Requests come on standard input and
answers go to standard output: a header, JSON after its length in 4 bytes (big-endian), and as many bytes of content as
the header's `bytes` says. Only Python's standard library, of 3.8 and later: the pod's image may have any.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

GREETING = b"athanor-dev 1\n"
LARGEST_BYTES = 8 << 20
"""Of a file that is copied: larger ones are data or checkpoints, which belong on a volume."""
ALIVE = Path("/tmp/athanor-dev-alive")  # noqa: S108 - in a pod of its own
"""Its age is how long no client was there."""
_SKIPPED = {".git", "__pycache__", ".venv", "venv", "node_modules", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints"}
_PARTIAL = ".athanor-partial"


class Tree:
    """The files of a folder: by their paths relative to it, with the SHA-256 of their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, tuple[tuple[int, int, int], str]] = {}
        self.too_large: set[str] = set()

    def scan(self, paths: Iterable[Path] | None = None) -> dict[str, str]:
        """Return the files and their digests; those that are too large, and links, are left out.

        Args:
            paths: The only ones that count; None: all but those in folders of tools, such as .git.
        """
        digests: dict[str, str] = {}
        for path in _files(self.folder) if paths is None else paths:
            name = path.relative_to(self.folder).as_posix()
            digest = self._digest(path, name)
            if digest is not None:
                digests[name] = digest
        return digests

    def _digest(self, path: Path, name: str) -> str | None:
        try:
            state = path.lstat()
            if not path.is_file() or path.is_symlink() or name.endswith(_PARTIAL):
                return None
            if state.st_size > LARGEST_BYTES:
                self.too_large.add(name)
                return None
            seen = (state.st_size, state.st_mtime_ns, state.st_ino)
            if self._known.get(name, (None,))[0] != seen:
                self._known[name] = (seen, hashlib.sha256(path.read_bytes()).hexdigest())
        except OSError:  # it went away, or cannot be read
            return None
        return self._known[name][1]

    def read(self, name: str) -> tuple[bytes, bool] | None:
        """Return a file's content, and whether it can be executed; None if it is gone or too large by now."""
        path = self._path(name)
        try:
            content = path.read_bytes()
            return None if len(content) > LARGEST_BYTES else (content, bool(path.stat().st_mode & 0o100))
        except OSError:
            return None

    def write(self, name: str, content: bytes, was: str | None, *, executable: bool) -> bool:
        """Write a file, whole or not at all, if it is what it was; return whether it was.

        Raises:
            OSError: it cannot be written.
        """
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.parent / f".{uuid.uuid4().hex[:12]}{_PARTIAL}"
        try:
            new.write_bytes(content)
            new.chmod(0o755 if executable else 0o644)
            if self._now(path, name) != was or path.is_symlink() or path.is_dir():
                return False
            new.replace(path)
        finally:
            with suppress(OSError):
                new.unlink()
        return True

    def delete(self, name: str, was: str) -> bool:
        """Delete a file if it is what it was, and folders that it leaves empty; return whether it was."""
        path = self._path(name)
        if self._now(path, name) != was:
            return False
        path.unlink()
        for parent in path.parents:
            if parent == self.folder:
                break
            try:
                parent.rmdir()
            except OSError:
                break
        return True

    def _now(self, path: Path, name: str) -> str | None:
        self._known.pop(name, None)
        return self._digest(path, name)

    def _path(self, name: str) -> Path:
        """Return the path of a name.

        Raises:
            OSError: it leads out of the folder, or through a link.
        """
        relative = Path(name)
        if relative.is_absolute() or ".." in relative.parts or not relative.parts:
            raise OSError(f"{name} leads out of the folder")
        if any((self.folder / parent).is_symlink() for parent in relative.parents):
            raise OSError(f"{name} lies behind a link")
        return self.folder / relative


def _files(folder: Path) -> Iterable[Path]:
    for place, folders, names in os.walk(str(folder)):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        for name in names:
            if not name.endswith(".pyc"):
                yield Path(place, name)


def send(stream: IO[bytes], header: dict[str, Any], content: bytes = b"") -> None:
    """Write a message."""
    text = json.dumps({**header, "bytes": len(content)}).encode()
    stream.write(len(text).to_bytes(4, "big") + text + content)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    """Read a message.

    Raises:
        EOFError: the other side ended.
    """
    header: dict[str, Any] = json.loads(_exactly(stream, int.from_bytes(_exactly(stream, 4), "big")))
    return header, _exactly(stream, header["bytes"])


def _exactly(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise EOFError
    return content


def answer(tree: Tree, asked: dict[str, Any], content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the answer to a request."""
    try:
        if asked["do"] == "scan":
            return {"files": tree.scan(), "too_large": sorted(tree.too_large)}, b""
        if asked["do"] == "read":
            read = tree.read(asked["name"])
            return ({"there": False}, b"") if read is None else ({"there": True, "executable": read[1]}, read[0])
        if asked["do"] == "write":
            done = tree.write(asked["name"], content, asked["was"], executable=asked["executable"])
            return {"done": done}, b""
        return {"done": tree.delete(asked["name"], asked["was"])}, b""
    except OSError as error:
        return {"error": str(error)}, b""


def serve(folder: Path) -> None:
    """Answer requests until the other side ends."""
    reads, writes = sys.stdin.buffer, sys.stdout.buffer
    folder.mkdir(parents=True, exist_ok=True)
    tree = Tree(folder)
    writes.write(GREETING)
    writes.flush()
    with suppress(EOFError, BrokenPipeError):
        while True:
            asked, content = receive(reads)
            with suppress(OSError):  # which the pod's keeper has created
                os.utime(str(ALIVE))
            send(writes, *answer(tree, asked, content))


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
