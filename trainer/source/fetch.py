"""Fetches a commit and its files from a server into an object store."""

from __future__ import annotations

import random
import time
import zlib
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    GitProtocolError,
    HangupException,
    ObjectFormatException,
    WrongObjectException,
)
from dulwich.object_store import DiskObjectStore, ObjectStoreGraphWalker
from dulwich.objects import ObjectID
from urllib3.exceptions import HTTPError

from trainer.source.address import server_of
from trainer.source.credentials import say
from trainer.source.errors import ProtocolRefusedError, RetryableError, SourceError
from trainer.source.ssh import SshKey, meaning, open_ssh_client
from trainer.source.transport import open_client

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from dulwich.client import GitClient
    from dulwich.refs import Ref

    from trainer.source.credentials import Credentials

DEFAULT_BRANCH = "HEAD"
"""Stands for the branch that the server names first; git allows no branch of this name."""
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0

BROKEN_DATA = (
    ApplyDeltaError,
    AssertionError,
    ChecksumMismatch,
    LookupError,
    ObjectFormatException,
    ValueError,
    WrongObjectException,
    zlib.error,
)
"""Exceptions of dulwich for bytes that are not a pack; a server can send any, and a shared volume hold any."""


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One branch, tag or commit."""

    kind: str
    """branch, tag or commit."""
    name: str
    """Its name, or the commit's 40 hex digits."""

    @property
    def prefix(self) -> bytes:
        """Beginning of the refs that the server is asked to list."""
        folders = {"branch": "refs/heads/", "tag": "refs/tags/"}
        is_named = self.kind in folders and self.name != DEFAULT_BRANCH
        return f"{folders[self.kind]}{self.name}".encode() if is_named else b"HEAD"

    def choose(self, refs: Mapping[Ref, ObjectID]) -> ObjectID:
        """Return the id to ask for: of a commit, or of an annotated tag.

        Raises:
            SourceError: the server has no such branch or tag.
        """
        if self.kind == "commit":
            return ObjectID(self.name.encode())
        for ref, sha in refs.items():
            if ref == self.prefix:
                return sha
        raise SourceError(f"the repository has no {self.kind} {self.name!r}. Fix: push it, or name another")


def fetch(repository: str, credentials: Credentials | SshKey | None, revision: Revision, folder: Path) -> ObjectID:
    """Fetch without history, try again while the server is away, and return the id that was asked for.

    `folder` becomes an object store, or gets more into the one that it is.

    Raises:
        SourceError: trying again would not help.
        OSError: the volume is full or not writable.
    """
    tell = partial(say, credentials=credentials)
    pause = FIRST_PAUSE_SECONDS
    with closing(_store(folder)) as store:
        while True:
            try:
                with _server(repository, credentials) as server:
                    return _fetch_once(server, revision, store, tell)
            except RetryableError as error:
                tell(f"{error}; trying again in {pause:.1f} s")
            # Spread, so that a thousand pods do not come back in the same instant.
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  no secret
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


@dataclass(frozen=True)
class _Server:
    client: GitClient
    path: bytes
    """Path of the repository there; a client of http has it in its address."""


@contextmanager
def _server(repository: str, login: Credentials | SshKey | None) -> Generator[_Server]:
    """Yield a connection to a repository's server.

    Raises:
        SourceError: it wants a key, and there is none.
    """
    if server_of(repository)[0] != "ssh":
        client = open_client(repository, None if isinstance(login, SshKey) else login)
        try:
            yield _Server(client, b"")
        finally:
            client.pool_manager.clear()
    elif isinstance(login, SshKey):
        ssh, path = open_ssh_client(repository, login)
        with closing(ssh):
            yield _Server(ssh, path)
    else:
        raise SourceError("ssh needs a key. Fix: name a Secret of type kubernetes.io/ssh-auth")


def _store(folder: Path) -> DiskObjectStore:
    return DiskObjectStore(folder) if (folder / "pack").is_dir() else DiskObjectStore.init(folder)


def _fetch_once(server: _Server, revision: Revision, store: DiskObjectStore, tell: Callable[[str], None]) -> ObjectID:
    try:
        return _receive(server, revision, store, prefixes=[revision.prefix], everything=False)
    except ProtocolRefusedError as error:
        if revision.kind != "commit":
            raise
        tell(f"{error}; fetching all branches and tags instead")
    prefixes = [b"refs/heads/", b"refs/tags/"]
    return _receive(server, revision, store, prefixes=prefixes, everything=True)


def _receive(
    server: _Server, revision: Revision, store: DiskObjectStore, *, prefixes: list[bytes], everything: bool
) -> ObjectID:
    chosen: list[ObjectID] = []

    def determine_wants(refs: Mapping[Ref, ObjectID], depth: int | None = None) -> list[ObjectID]:
        del depth
        chosen.append(revision.choose(refs))
        return sorted(set(refs.values())) if everything else chosen

    pack, commit, abort = store.add_pack()
    try:
        server.client.fetch_pack(
            server.path,
            determine_wants,
            ObjectStoreGraphWalker([], lambda _commit: []),
            pack.write,
            depth=None if everything else 1,
            ref_prefix=prefixes,
        )
        commit()
    except BaseException as error:
        # Also closes the file; a pack that is complete but useless has left its name already.
        with suppress(FileNotFoundError):
            abort()
        if isinstance(error, (HTTPError, GitProtocolError, *BROKEN_DATA)):
            raise _classified(error) from error
        raise
    return chosen[0]


def _classified(error: Exception) -> SourceError:
    """Return an error of the transfer as one that says whether to try again."""
    if isinstance(error, HangupException) and error.stderr_lines:
        return meaning(error.stderr_lines)
    if isinstance(error, (HTTPError, HangupException)) or isinstance(error.__cause__, HTTPError):
        return RetryableError(f"the server broke off: {error}")
    if isinstance(error, GitProtocolError):
        return ProtocolRefusedError(f"the server refuses it: {error}")
    return SourceError(f"what the server sends is not git's protocol, or not a whole pack: {error!r}")
