"""Fetches a job's code from git into its pods: `python3 -m trainer.source`, in the fetching pod and in all others.

Exit status: 0 all files are in place, 1 they are not, 2 wrong arguments, 143 stopped on request.

The environment variable ATHANOR_SOURCE_COMMIT chooses the commit of a run that has none yet: a full hash, or `same` for
that of the run before.

Its content is only trusted as far as its hashes go: every pod proves the files up to the commit of the record.

A branch may move between the clones of two pods. So the first pod that has its files links its record to the shared
name, which succeeds for exactly one; all other pods, and a pod that restarts days later, take the commit from there.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
import time
import uuid
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID

from trainer.common.files import fsync_directory, read_json, write_json_atomically
from trainer.source.checkout import commit_of, tree_of, write_tree
from trainer.source.config import COMMIT_PATTERN, SourceConfig, parse
from trainer.source.credentials import Credentials, read_credentials, say
from trainer.source.errors import SourceError, TooLateError
from trainer.source.fetch import BROKEN_DATA, Revision, fetch
from trainer.source.ssh import SshKey, read_key
from trainer.source.submodules import fetch_submodules, folders_left_empty
from trainer.training.signals import STOPPED_EXIT_STATUS

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

    from trainer.source.config import SourceConfig


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record of what was fetched."""

    repository: str
    requested: dict[str, str]
    """branch, tag or commit, as the job asked for it."""
    commit: str
    """40 hex digits."""
    time: str
    """Time when the first pod fetched it: RFC 3339, UTC."""

    def document(self) -> dict[str, Any]:
        """Return the content of the file."""
        return {
            "commit": self.commit,
            "repository": self.repository,
            "requested": self.requested,
            "time": self.time,
        }


def new_record(config: SourceConfig, commit: str) -> Record:
    """Return the record of a commit that was just fetched."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Record(repository=config.repository, requested=config.requested, commit=commit, time=now)


def read_record(path: Path, config: SourceConfig) -> Record | None:
    """Return the record of an earlier fetch by a pod of this job, None if there is none.

    Raises:
        SourceError: the file is broken, or belongs to another repository, branch, tag or commit.
    """
    if not path.exists():
        return None
    stored = read_json(path) or {}
    commit = stored.get("commit")
    if not isinstance(commit, str) or not COMMIT_PATTERN.fullmatch(commit):
        raise SourceError(f"{path}: is not a record of fetched code. Fix: remove it, or name another file as record")
    expected = {"repository": config.repository, "requested": config.requested}
    belongs = all(stored.get(key) == value for key, value in expected.items())
    if not belongs or config.commit not in {None, commit}:
        raise SourceError(
            f"{path}: records {stored.get('requested')} of {stored.get('repository')}, this job asks for "
            f"{config.requested} of {config.repository}. Fix: a record of its own for each job"
        )
    return Record(repository=config.repository, requested=config.requested, commit=commit, time=str(stored.get("time")))


def publish(path: Path, record: Record, config: SourceConfig) -> Record:
    """Write the record unless a pod was faster, and return the one that counts.

    Raises:
        SourceError: what is there belongs to another job, or the volume has no hard links.
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.link")
    write_json_atomically(temporary, record.document())
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except (PermissionError, OSError) as error:
        if config.commit is None:
            raise SourceError(
                f"{path}: cannot be linked: {error.strerror}. "
                "Fix: a volume with hard links (NFS has them), or name a commit instead of a branch or tag"
            ) from error
        # All pods write the same commit: it does not matter which record stays.
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_directory(path.parent)
    counts = read_record(path, config)
    if counts is None:
        raise SourceError(f"{path}: is gone again. Fix: see what removes files there")
    return counts


OWN_FOLDER = ".athanor-source"
"""Folder in the destination that says that this program wrote its content, and holds the attempt under way."""


class Destination:
    """A folder, usually a volume's top: so it cannot be replaced as a whole, and is marked as ours before anything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = folder / OWN_FOLDER
        self.objects = self.own / "objects"
        self.tree = self.own / "tree"
        self.record = self.own / "source.json"

    def start_over(self) -> None:
        """Remove what an earlier attempt left, finished or not, and make room for a new one.

        Raises:
            SourceError: it contains something that this program did not write.
            OSError: the folder cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        names = sorted(path.name for path in self.folder.iterdir())
        if names and (self.own.is_symlink() or not self.own.is_dir()):
            raise SourceError(
                f"destination={str(self.folder)!r}: holds {names[0]!r} and {len(names) - 1} more; must be empty. "
                "Fix: mount an emptyDir there"
            )
        # The mark goes last: a kill in between must leave what the next attempt takes for ours.
        for path in (*(path for path in self.folder.iterdir() if path != self.own), *_children(self.own)):
            _remove(path)
        self.own.mkdir(exist_ok=True)
        self.objects.mkdir()
        self.tree.mkdir()

    def complete(self) -> None:
        """Move the files of the attempt to where they are wanted.

        Raises:
            SourceError: the repository has a file named like our mark.
        """
        if (self.tree / OWN_FOLDER).exists():
            raise SourceError(f"{OWN_FOLDER!r}: this name is taken by the program. Fix: rename it in the repository")
        for path in self.tree.iterdir():
            path.rename(self.folder / path.name)
        self.tree.rmdir()
        shutil.rmtree(self.objects)


def _children(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


class Store:
    """A folder with an object store for each commit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def objects(self, commit: str) -> Path | None:
        """Return the object store of a commit, None as long as there is none."""
        place = self._place(commit)
        return place if place.is_dir() else None

    def keep(self, objects: Path, commit: str) -> None:
        """Copy a commit's objects here; they appear at once or not at all, and replace broken ones.

        Raises:
            OSError: the volume is full or not writable.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        mark = uuid.uuid4().hex
        new, old = self._folder / f".{mark}.new", self._folder / f".{mark}.old"
        try:
            shutil.copytree(objects, new)
            if self.objects(commit):
                self._place(commit).rename(old)
            new.rename(self._place(commit))
        finally:
            for left in (new, old):
                shutil.rmtree(left, ignore_errors=True)

    def _place(self, commit: str) -> Path:
        return self._folder / commit


POLL_SECONDS = 0.5
"""Between two looks for what another pod fetches."""


COMMIT_VARIABLE = "ATHANOR_SOURCE_COMMIT"
SAME = "same"
TERMINATION_LOG = Path("/dev/termination-log")
"""File whose content the kubelet reports as the message of the ended container, in the pod's status."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 when the code is in place."""
    config = parse(arguments)
    credentials: Credentials | SshKey | None = None
    try:
        with _limited(config.timeout_seconds):
            credentials = _login(config)
            line = _obtain(config, credentials)
    except SourceError as error:
        line, status = f"{config.repository}: {error}", 1
    except OSError as error:
        line, status = _explanation(config, error), 1
    else:
        status = 0
    say(line, credentials)
    return status


def _login(config: SourceConfig) -> Credentials | SshKey | None:
    if config.credentials_dir is None:
        return None
    return read_key(config.credentials_dir) if config.is_ssh else read_credentials(config.credentials_dir)


def _obtain(config: SourceConfig, credentials: Credentials | SshKey | None) -> str:
    if config.unprotected:
        say("warning: http without TLS, the code could be changed on its way", credentials)
    destination = Destination(config.destination)
    store = Store(config.store) if config.store else None
    if config.take and store:
        record, objects = _wait_for(config, store)
        return _finish(destination, record, _check_out_of(config, objects, record, destination))
    shared = config.record_of_run
    record = read_record(shared, config) if shared else None
    if record and store and (objects := store.objects(record.commit)):
        try:
            return _finish(destination, record, _check_out_of(config, objects, record, destination))
        except TooLateError:
            raise
        except SourceError as error:
            say(f"the store is broken, fetching again: {error}", credentials)
    commit = record.commit if record else _chosen(config)
    kind, name = ("commit", commit) if commit else next(iter(config.requested.items()))
    fetched, files = _check_out(config, credentials, Revision(kind=kind, name=name), destination)
    record = record or new_record(config, fetched)
    if shared is not None:
        record = publish(shared, record, config)
    if record.commit != fetched:
        say(f"another pod was faster, taking its commit {record.commit}", credentials)
        _, files = _check_out(config, credentials, Revision(kind="commit", name=record.commit), destination)
    if config.record is not None and config.record != shared:
        write_json_atomically(config.record, record.document())
    if store:  # last: what finds the commit there takes all the rest for done
        store.keep(destination.objects, record.commit)
    return _finish(destination, record, files)


def _chosen(config: SourceConfig) -> str | None:
    """Return the commit that was chosen for this run; None if what the job asks for counts."""
    chosen = os.environ.get(COMMIT_VARIABLE)
    if not chosen:
        return None
    if chosen == SAME:
        before = read_record(config.record, config) if config.record else None
        return before.commit if before else None
    if not COMMIT_PATTERN.fullmatch(chosen):
        raise SourceError(f"{COMMIT_VARIABLE}={chosen!r}: must be 40 of 0-9 a-f, or {SAME!r}. Fix: run the job again")
    return chosen


def _check_out(
    config: SourceConfig, credentials: Credentials | SshKey | None, revision: Revision, destination: Destination
) -> tuple[str, int]:
    """Fetch into the destination's own folder; return the commit and its number of files."""
    destination.start_over()
    sha = fetch(config.repository, credentials, revision, destination.objects)
    fetch_submodules(config, credentials, destination.objects, sha)
    return _write(config, destination.objects, sha, destination)


def _check_out_of(config: SourceConfig, objects: Path, record: Record, destination: Destination) -> int:
    """Write a recorded commit's files from an object store; return their number."""
    destination.start_over()
    try:
        _, files = _write(config, objects, ObjectID(record.commit.encode()), destination)
    except BROKEN_DATA as error:
        raise SourceError(f"{objects}: is not what was fetched: {error!r}") from error
    return files


def _write(config: SourceConfig, objects: Path, sha: ObjectID, destination: Destination) -> tuple[str, int]:
    with closing(DiskObjectStore(objects)) as store:
        commit = commit_of(store, sha)
        folder = PurePosixPath(config.subdirectory or ".")
        empty = folders_left_empty(store, commit, folder)
        files = write_tree(store, tree_of(store, commit, folder), destination.tree, empty)
    return commit.id.decode(), files


def _wait_for(config: SourceConfig, store: Store) -> tuple[Record, Path]:
    """Wait for another pod to fetch, and return its record."""
    said = False
    while True:
        record = read_record(config.record_of_run, config) if config.record_of_run else None
        if record and (objects := store.objects(record.commit)):
            return record, objects
        if not said:
            say("waiting for the pod that fetches the code", None)
            said = True
        time.sleep(POLL_SECONDS)


def _finish(destination: Destination, record: Record, files: int) -> str:
    destination.complete()
    write_json_atomically(destination.record, record.document())
    with suppress(OSError), TERMINATION_LOG.open("r+", encoding="utf-8") as log:  # outside a pod there is none
        log.write(json.dumps(record.document()))
    kind, name = next(iter(record.requested.items()))
    return f"{record.repository} {kind} {name}: commit {record.commit}, {files} files in {destination.folder}"


def _explanation(config: SourceConfig, error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return (
            f"{config.destination}: the volume is full ({error.strerror}). "
            "Fix: more space for the source volume, or a subdirectory; data sets belong on the data volume"
        )
    return f"{error.filename or config.destination}: {error.strerror or error}"


@contextmanager
def _limited(seconds: float) -> Generator[None]:
    """End what runs too long, and at once when Kubernetes asks: as a container's first process, SIGTERM would not."""

    def on_alarm(_number: int, _frame: FrameType | None) -> None:
        raise TooLateError(f"not fetched within {seconds:g} s. Fix: see the lines above, or a higher timeout_seconds")

    def on_stop(_number: int, _frame: FrameType | None) -> None:
        sys.exit(STOPPED_EXIT_STATUS)

    handlers = {signal.SIGALRM: on_alarm, signal.SIGTERM: on_stop}
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in previous.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
