"""A repository's submodules: fetched into the same object store, each as the commit that its parent names.

So the commit of the whole proves their content, too. Formats: git's documentation, gitmodules(5) and gitsubmodules(7).
"""

from __future__ import annotations

import stat
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dulwich.config import ConfigFile
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, Tree

from trainer.source.address import reached_as, resolved, server_of
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
            named = list(_named(store, parent.commit, parent.folder))
        for place, written, commit_id in named:
            if written is None:
                continue
            path, address = printable(str(place)), reached_as(config.repository, resolved(parent.address, written))
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
    same = server_of(address) == server_of(config.repository)
    try:
        fetch(address, credentials if same else None, Revision(kind="commit", name=commit_id.decode()), objects)
        with closing(DiskObjectStore(objects)) as store:
            return load(store, commit_id, Commit)
    except SourceError as error:
        raise SourceError(f"submodule {path!r} at {address}: {error}") from error


def folders_left_empty(store: DiskObjectStore, commit: Commit, folder: PurePosixPath) -> set[PurePosixPath]:
    """Return the paths, from the folder, of submodules that `update = none` in .gitmodules leaves out, as git does.

    Raises:
        SourceError: a submodule was not fetched.
    """
    left: set[PurePosixPath] = set()
    for path, address, commit_id in _named(store, commit, folder):
        place = path.relative_to(folder)
        if address is None:
            left.add(place)
        else:
            below = folders_left_empty(store, load(store, commit_id, Commit), PurePosixPath())
            left |= {place / each for each in below}
    return left


def _named(
    store: DiskObjectStore, commit: Commit, folder: PurePosixPath
) -> Iterator[tuple[PurePosixPath, str | None, ObjectID]]:
    """Yield path, address and commit of the submodules in a folder; those to leave out have no address."""
    entries = list(_entries(store, tree_of(store, commit, folder), folder))
    if not entries:
        return
    addresses = _addresses(store, load(store, commit.tree, Tree))
    for path, commit_id in entries:
        if str(path) not in addresses:
            limit = f"{printable(str(path))!r}: is a submodule that .gitmodules does not name"
            raise SourceError(f"{limit}. Fix: `git submodule add` it")
        yield path, addresses[str(path)], commit_id


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


def _addresses(store: DiskObjectStore, top: Tree) -> dict[str, str | None]:
    """Return the addresses in .gitmodules by the paths, None for one to leave out; nothing without such a file."""
    entry = next((entry for entry in top.iteritems() if entry.path == GITMODULES and stat.S_ISREG(entry.mode)), None)
    if entry is None:
        return {}
    content = load(store, entry.sha, Blob).as_raw_string()
    if len(content) > _LARGEST_FILE:
        raise SourceError(f".gitmodules has more than {_LARGEST_FILE} bytes")
    try:
        modules = ConfigFile.from_file(BytesIO(content))
    except ValueError as error:
        raise SourceError(f".gitmodules cannot be read: {printable(str(error))}") from error
    addresses: dict[str, str | None] = {}
    for section in modules.sections():
        if section[0] != b"submodule" or not modules.has_section(section):
            continue
        values = dict(modules.items(section))
        path, url = values.get(b"path"), values.get(b"url")
        is_left_out = values.get(b"update") == b"none"
        if path is not None and (url is not None or is_left_out):
            address = (url or b"").decode(errors="replace")
            addresses[path.decode(errors="replace")] = None if is_left_out else address
    return addresses
