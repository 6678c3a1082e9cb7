"""A synchronised folder: its contents, and changes that apply only to the state that was last seen.

`athanor dev` sends this module to the pod as text, with the function that it imports, and runs the same code on this
machine. Requests come on standard input and answers go to standard output: a header (JSON, after its length in 4 bytes,
big-endian), and as many bytes of content as the header's `bytes` says. Only Python's standard library, 3.8 or later:
the pod's image may have any.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import uuid
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from athanor.runs.tar_stream import leads_inside

if TYPE_CHECKING:
    from collections.abc import Iterable

GREETING = b"athanor-dev 1\n"
LARGEST_BYTES = 8 << 20
"""Largest size of a file that is copied: larger ones are data or checkpoints, which belong on a volume."""
ALIVE = Path("/tmp/athanor-dev-alive")  # noqa: S108 - in a pod of its own
"""File whose age is the time without a client."""
SKIPPED_FOLDERS = frozenset(
    [".git", "__pycache__", ".venv", "venv", "node_modules", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints"]
)
"""Folders of tools: not read, as they may have any number of files, unless the other side has some of them."""
_SKIPPED_SUFFIX = ".pyc"
_PARTIAL = ".athanor-partial"
EXECUTABLE = "x"
LINK = "->"
_LEFT = "?"
CHANGED = "changed meanwhile"
IN_THE_WAY = "a folder with other files has its name"
BEHIND_A_FILE = "a file has the name of its folder"


def kind_of(state: str) -> str:
    """Return EXECUTABLE, LINK, or an empty text for any other file."""
    return next((kind for kind in (EXECUTABLE, LINK) if state.startswith(kind)), "")


def is_skipped(name: str) -> bool:
    """Return whether a pod copies a file only if the other side has it."""
    return name.endswith(_SKIPPED_SUFFIX) or not SKIPPED_FOLDERS.isdisjoint(PurePosixPath(name).parts[:-1])


class Tree:
    """The files of a folder by their paths relative to it, each with its state.

    A state is the SHA-256 of the content, after an "x" if it can be executed; "->" and where a link leads; or "?" and
    why what is there is not copied.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, tuple[tuple[int, int, int], str]] = {}

    def scan(self, listed: Iterable[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
        """Return the states of the files, and why others that are there are not copied.

        Args:
            listed: Files that the other side has: they count even where a tool's are skipped.
        """
        return self._states(_files(self.folder, set(listed)))

    def _states(self, paths: Iterable[Path]) -> tuple[dict[str, str], dict[str, str]]:
        states: dict[str, str] = {}
        left: dict[str, str] = {}
        for path in paths:
            name = path.relative_to(self.folder).as_posix()
            state = None if name.endswith(_PARTIAL) else self._state(path, name)
            if state is not None and state.startswith(_LEFT):
                left[name] = state[len(_LEFT) :]
            elif state is not None:
                states[name] = state
        return states, left

    def _state(self, path: Path, name: str) -> str | None:
        """Return the state of a file; None only if nothing is there."""
        try:
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(str(path))  # noqa: PTH115 - Path.readlink is of Python 3.9
                return LINK + target if leads_inside(name, target) else f"{_LEFT}a link that may lead out of the folder"
            reason = _reason_to_leave(status)
            if reason:
                return _LEFT + reason
            seen = (status.st_size, status.st_mtime_ns, status.st_ino)
            if self._known.get(name, (None,))[0] != seen:
                self._known[name] = (seen, hashlib.sha256(_content(path)).hexdigest())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return f"{_LEFT}unreadable"
        return (EXECUTABLE if status.st_mode & 0o100 else "") + self._known[name][1]

    def read(self, name: str) -> tuple[bytes, str] | None:
        """Return a file's content or where a link leads, and its kind; None if it is gone or not copied by now."""
        path = self._path(name)
        state = self._state(path, name)
        if state is None or state.startswith(_LEFT):
            return None
        kind = kind_of(state)
        if kind == LINK:
            return os.fsencode(state[len(LINK) :]), kind
        try:
            content = _content(path)
        except OSError:
            return None
        return None if len(content) > LARGEST_BYTES else (content, kind)

    def write(self, name: str, content: bytes, was: str | None, *, kind: str) -> str:
        """Write a file or a link, whole or not at all, if it is what it was; return why not, empty if it was.

        Raises:
            OSError: it cannot be written, or leads out of the folder.
        """
        path = self._path(name)
        if kind == LINK and not leads_inside(name, os.fsdecode(content)):
            raise OSError(f"{name} is a link that may lead out of the folder")
        if not _has_room(path):
            return IN_THE_WAY
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            return BEHIND_A_FILE
        new = path.parent / f".{uuid.uuid4().hex[:12]}{_PARTIAL}"
        try:
            if kind == LINK:
                new.symlink_to(os.fsdecode(content))
            else:
                new.write_bytes(content)
                new.chmod(0o755 if kind == EXECUTABLE else 0o644)
            if self._now(path, name) != was:
                return CHANGED
            new.replace(path)
        finally:
            with suppress(OSError):
                new.unlink()
        return ""

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
        return self._state(path, name)

    def _path(self, name: str) -> Path:
        """Return the path of a name.

        Raises:
            OSError: it leads out of the folder, or through a link.
        """
        relative = Path(name)
        if relative.is_absolute() or ".." in relative.parts or not relative.parts or "\0" in name:
            raise OSError(f"{name} leads out of the folder")
        if any((self.folder / parent).is_symlink() for parent in relative.parents):
            raise OSError(f"{name} lies behind a link")
        return self.folder / relative


def _has_room(path: Path) -> bool:
    """Return whether no folder has a file's name; an empty one makes room for it."""
    if not path.is_dir() or path.is_symlink():
        return True
    try:
        path.rmdir()
    except OSError:
        return False
    return True


def _reason_to_leave(status: os.stat_result) -> str:
    """Return why something other than a link is not copied; empty if it is."""
    if stat.S_ISDIR(status.st_mode):  # listed as a file: what is in it could not be listed
        return "an unreadable folder"
    if not stat.S_ISREG(status.st_mode):
        return "neither a file nor a link"
    return f"larger than {LARGEST_BYTES >> 20} MiB" if status.st_size > LARGEST_BYTES else ""


def _content(path: Path) -> bytes:
    """Return the beginning of a file, one byte more than is copied; a link is not followed, nor a pipe waited for."""
    with os.fdopen(os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(LARGEST_BYTES + 1)


def _files(folder: Path, listed: set[str]) -> Iterable[Path]:
    """Yield the files of a folder, its links, and folders that cannot be read."""
    opened = {str(parent) for name in listed if is_skipped(name) for parent in PurePosixPath(name).parents}
    unreadable: list[Path] = []

    def note(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            unreadable.append(Path(error.filename))

    for place, folders, names in os.walk(str(folder), onerror=note):
        below = PurePosixPath(Path(place).relative_to(folder).as_posix())
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS or str(below / name) in opened]
        for name in [*names, *(each for each in folders if Path(place, each).is_symlink())]:
            if not name.endswith(_SKIPPED_SUFFIX) or str(below / name) in listed:
                yield Path(place, name)
    yield from unreadable


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
            files, left = tree.scan(asked["listed"])
            return {"files": files, "left": left}, b""
        if asked["do"] == "read":
            read = tree.read(asked["name"])
            return ({"there": False}, b"") if read is None else ({"there": True, "kind": read[1]}, read[0])
        if asked["do"] == "write":
            return {"why_not": tree.write(asked["name"], content, asked["was"], kind=asked["kind"])}, b""
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
