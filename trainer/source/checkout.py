"""Writes the files of a commit, and verifies that they belong to it.

The repository may be hostile: nothing is written outside the folder, and nothing in it points outside.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, TypeVar

from dulwich.errors import ObjectFormatException
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tag, Tree

from trainer.common.files import is_inside
from trainer.source.errors import SourceError, printable

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path, PurePosixPath

    from dulwich.object_store import DiskObjectStore

SUBMODULE = 0o160000
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
LONGEST_LFS_POINTER = 1024
LONGEST_CHAIN_OF_TAGS = 10

Kind = TypeVar("Kind", bound=ShaFile)


def load(store: DiskObjectStore, sha: ObjectID, kind: type[Kind]) -> Kind:
    """Return an object whose content really has this id.

    Raises:
        SourceError: it is missing, of another kind or another object.
    """
    try:
        stored = store[sha]
    except (KeyError, ObjectFormatException) as error:
        raise SourceError(f"object {printable(sha)} is missing or broken in what the server sent") from error
    if not isinstance(stored, kind):
        raise SourceError(f"object {printable(sha)} is a {printable(stored.type_name)}, not a {kind.__name__.lower()}")
    content = stored.as_raw_string()
    header = b"%s %d\0" % (stored.type_name, len(content))
    if hashlib.sha1(header + content, usedforsecurity=False).hexdigest().encode() != sha:
        raise SourceError(f"object {printable(sha)}: the server sent different content under this id")
    return stored


def commit_of(store: DiskObjectStore, sha: ObjectID) -> Commit:
    """Return a commit, or the one that an annotated tag names.

    Raises:
        SourceError: the tag names a file or folder, or an object is missing.
    """
    for _ in range(LONGEST_CHAIN_OF_TAGS):
        if sha not in store or not isinstance(store[sha], Tag):
            return load(store, sha, Commit)
        sha = load(store, sha, Tag).object[1]
    raise SourceError(f"the tag leads to a tag, more than {LONGEST_CHAIN_OF_TAGS} times. Fix: name the commit")


def tree_of(store: DiskObjectStore, commit: Commit, subdirectory: PurePosixPath) -> Tree:
    """Return the folder of a commit that is wanted.

    Raises:
        SourceError: the commit has no such folder.
    """
    tree = load(store, commit.tree, Tree)
    for part in subdirectory.parts:
        entries = {entry.path: entry for entry in tree.iteritems()}
        entry = entries.get(os.fsencode(part))
        if entry is None or not stat.S_ISDIR(entry.mode):
            raise SourceError(f"commit {printable(commit.id)} has no folder {str(subdirectory)!r}")
        tree = load(store, entry.sha, Tree)
    return tree


def write_tree(store: DiskObjectStore, tree: Tree, folder: Path, empty: Collection[PurePosixPath] = ()) -> int:
    """Write a tree into an empty folder and return the number of files.

    Args:
        store: Has its objects.
        tree: The tree.
        folder: The folder.
        empty: Submodules that stay empty, by their paths.

    Raises:
        SourceError: it holds a submodule that was not fetched, a pointer of git LFS, a link that leaves the folder or
            an unsafe name.
        OSError: the volume is full, or a name longer than it allows.
    """
    links: dict[Path, str] = {}
    files = 0
    pending = [(folder, tree)]
    while pending:
        parent, current = pending.pop()
        for entry in current.iteritems():
            path = parent / _safe_name(entry.path)
            if stat.S_ISDIR(entry.mode) or stat.S_IFMT(entry.mode) == SUBMODULE:
                path.mkdir()
                if path.relative_to(folder) in empty:
                    continue
                pending.append((path, _subtree(store, entry.mode, entry.sha)))
                continue
            content = _content(store, _quoted(path, folder), entry.mode, entry.sha)
            if stat.S_ISLNK(entry.mode):
                links[path] = os.fsdecode(content)
            else:
                _write_file(path, content, executable=bool(entry.mode & stat.S_IXUSR))
            files += 1
    _write_links(folder, links)
    return files


def _subtree(store: DiskObjectStore, mode: int, sha: ObjectID) -> Tree:
    """Return a folder, or that of a submodule's commit."""
    return load(store, load(store, sha, Commit).tree if stat.S_IFMT(mode) == SUBMODULE else sha, Tree)


def _quoted(path: Path, folder: Path) -> str:
    return repr(printable(str(path.relative_to(folder))))


def _safe_name(name: bytes) -> str:
    if name in {b"", b".", b".."} or b"/" in name or name.lower() == b".git":
        raise SourceError(f"{printable(name)!r}: is not a safe name of a file or folder in a repository")
    return os.fsdecode(name)


def _content(store: DiskObjectStore, quoted: str, mode: int, sha: ObjectID) -> bytes:
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise SourceError(f"{quoted}: has mode {mode:o}: must be a file, a folder or a symbolic link")
    content = load(store, sha, Blob).as_raw_string()
    if content.startswith(LFS_POINTER) and len(content) < LONGEST_LFS_POINTER:
        raise SourceError(
            f"{quoted}: its content is in git LFS, which is not fetched and would be missing. "
            "Fix: put big files on the data volume, name a subdirectory without it, or put the code into the image"
        )
    return content


def _write_file(path: Path, content: bytes, *, executable: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        os.fchmod(descriptor, 0o755 if executable else 0o644)


def _write_links(folder: Path, links: dict[Path, str]) -> None:
    # After all files, so that none is written through a link; and looked at when all are there, because where a link
    # leads depends on the others: `up/../x` leaves the folder if `up` is a link to its top.
    for path, target in links.items():
        if target.startswith("/") or not target or "\0" in target:
            raise _leaves(_quoted(path, folder), target)
        path.symlink_to(target)
    for path, target in links.items():
        if not is_inside(path, folder):
            raise _leaves(_quoted(path, folder), target)


def _leaves(quoted: str, target: str) -> SourceError:
    return SourceError(
        f"{quoted}: is a symbolic link to {printable(target)!r}: must lead to a place inside what is "
        "fetched. Fix: a relative link within it, or a plain file"
    )
