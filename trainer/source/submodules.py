"""A repository's submodules: fetched into the same object store, each as the commit that its parent names.

So the commit of the whole proves their content, too. Formats: git's documentation, gitmodules(5) and gitsubmodules(7).
"""

from __future__ import annotations

import posixpath
import stat
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from dulwich.config import ConfigFile, parse_submodules
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, Tree

from trainer.source.checkout import SUBMODULE, commit_of, load, tree_of
from trainer.source.errors import SourceError, printable
from trainer.source.fetch import Revision, fetch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dulwich.objects import ObjectID

    from trainer.source.config import SourceConfig
    from trainer.source.credentials import Credentials
    from trainer.source.ssh import SshKey

GITMODULES = b".gitmodules"
MOST_SUBMODULES = 100
"""A hostile repository could name itself again and again."""
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Repository:
    """A repository whose commit is in the store."""

    address: str
    commit: Commit
    folder: PurePosixPath
    """The only one of its folders that counts; `.` for all."""


def fetch_submodules(
    config: SourceConfig, credentials: Credentials | SshKey | None, objects: Path, sha: ObjectID
) -> None:
    """Fetch the commits that a commit's files have as submodules, and those of theirs.

    Args:
        config: What is fetched.
        credentials: Of the repository's server; other servers do not get them.
        objects: The object store; it has the commit.
        sha: The commit, or an annotated tag.

    Raises:
        SourceError: one cannot be fetched, has an address that is not allowed, or there are too many.
        OSError: the volume is full or not writable.
    """
    with closing(DiskObjectStore(objects)) as store:
        commit = commit_of(store, sha)
    waiting = deque([
        _Repository(
            address=config.repository, commit=commit, folder=PurePosixPath(config.subdirectory or ".")
        )
    ])  # fmt: skip
    fetched: set[tuple[str, bytes]] = set()
    while waiting:
        parent = waiting.popleft()
        with closing(DiskObjectStore(objects)) as store:
            named = dict(_named(store, parent))
        for path, (address, commit_id) in named.items():
            if (address, commit_id) in fetched:
                continue
            fetched.add((address, commit_id))
            if len(fetched) > MOST_SUBMODULES:
                limit = f"it has more than {MOST_SUBMODULES} submodules"
                raise SourceError(f"{limit}. Fix: name a subdirectory without them")
            own = _fetch(config, credentials, objects, (path, address, commit_id))
            waiting.append(_Repository(address=address, commit=own, folder=PurePosixPath()))


def _fetch(
    config: SourceConfig, credentials: Credentials | SshKey | None, objects: Path, submodule: tuple[str, str, ObjectID]
) -> Commit:
    """Fetch the commit of a submodule's path and address; return it."""
    path, address, commit_id = submodule
    config.check_submodule(path, address)
    same = urlsplit(address)[:2] == urlsplit(config.repository)[:2]
    try:
        fetch(address, credentials if same else None, Revision(kind="commit", name=commit_id.decode()), objects)
        with closing(DiskObjectStore(objects)) as store:
            return load(store, commit_id, Commit)
    except SourceError as error:
        raise SourceError(f"submodule {path!r} at {address}: {error}") from error


def _named(store: DiskObjectStore, parent: _Repository) -> Iterator[tuple[str, tuple[str, ObjectID]]]:
    """Yield path, address and commit of the submodules among the files that count."""
    entries = list(_entries(store, tree_of(store, parent.commit, parent.folder), parent.folder))
    if not entries:
        return
    addresses = _addresses(store, load(store, parent.commit.tree, Tree))
    for path, commit_id in entries:
        quoted = printable(str(path))
        if str(path) not in addresses:
            raise SourceError(f"{quoted!r}: is a submodule that .gitmodules does not name. Fix: `git submodule add` it")
        yield quoted, (_resolved(parent.address, addresses[str(path)]), commit_id)


def _entries(store: DiskObjectStore, tree: Tree, folder: PurePosixPath) -> Iterator[tuple[PurePosixPath, ObjectID]]:
    pending = [(folder, tree)]
    while pending:
        place, current = pending.pop()
        for entry in current.iteritems():
            path = place / entry.path.decode(errors="replace")
            if stat.S_IFMT(entry.mode) == SUBMODULE:
                yield path, entry.sha
            elif stat.S_ISDIR(entry.mode):
                pending.append((path, load(store, entry.sha, Tree)))


def _addresses(store: DiskObjectStore, top: Tree) -> dict[str, str]:
    """Return the addresses in .gitmodules by the paths; nothing without such a file."""
    entry = next((entry for entry in top.iteritems() if entry.path == GITMODULES and stat.S_ISREG(entry.mode)), None)
    if entry is None:
        return {}
    content = load(store, entry.sha, Blob).as_raw_string()
    if len(content) > _LARGEST_FILE:
        raise SourceError(f".gitmodules has more than {_LARGEST_FILE} bytes")
    try:
        modules = list(parse_submodules(ConfigFile.from_file(BytesIO(content))))
    except (ValueError, KeyError) as error:
        raise SourceError(f".gitmodules cannot be read: {printable(str(error))}") from error
    return {path.decode(errors="replace"): url.decode(errors="replace") for path, url, _ in modules}


def _resolved(parent: str, address: str) -> str:
    """Return an address; one that begins with ./ or ../ is relative to the parent's, taken for a folder."""
    if not address.startswith(("./", "../")):
        return address
    own = urlsplit(parent)
    path = posixpath.normpath(posixpath.join(own.path, address))
    return urlunsplit(own._replace(path=path))
