"""Fetches a job's code from git into its pods: `python3 -m trainer.source`, in the fetching pod and in all others.

Exit status: 0 all files are in place, 1 they are not, 2 wrong arguments, 143 stopped on request.

The environment variable ATHANOR_SOURCE_COMMIT chooses the commit of a run that has none yet: a full hash, or `same` for
that of the run before.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID

from trainer.common.files import write_json_atomically
from trainer.source.checkout import commit_of, tree_of, write_tree
from trainer.source.config import COMMIT_PATTERN, SourceConfig, parse
from trainer.source.credentials import Credentials, read_credentials, say
from trainer.source.destination import Destination
from trainer.source.errors import SourceError, TooLateError
from trainer.source.fetch import BROKEN_DATA, Revision, fetch
from trainer.source.record import Record, new_record, publish, read_record
from trainer.source.ssh import SshKey, read_key
from trainer.source.store import Store
from trainer.source.submodules import fetch_submodules, folders_left_empty
from trainer.training.signals import STOPPED_EXIT_STATUS

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

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
