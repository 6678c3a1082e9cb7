"""The program of the init container: `python3 -m trainer.source`.

Exit status: 0 all files are in place, 1 they are not, 2 wrong arguments, 143 stopped on request.
"""

from __future__ import annotations

import errno
import signal
import sys
from contextlib import closing, contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dulwich.object_store import DiskObjectStore

from trainer.files import write_json_atomically
from trainer.signals import STOPPED_EXIT_STATUS
from trainer.source.checkout import commit_of, tree_of, write_tree
from trainer.source.config import SourceConfig, parse
from trainer.source.credentials import Credentials, read_credentials, say
from trainer.source.destination import Destination
from trainer.source.errors import SourceError
from trainer.source.fetch import Wanted, fetch
from trainer.source.record import Record, new_record, publish, read_record

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 when the code is in place."""
    config = parse(arguments)
    credentials: Credentials | None = None
    try:
        with _limited(config.timeout_seconds):
            credentials = read_credentials(config.credentials_dir) if config.credentials_dir else None
            line = _obtain(config, credentials)
    except SourceError as error:
        line, status = f"{config.repository}: {error}", 1
    except OSError as error:
        line, status = _told(config, error), 1
    else:
        status = 0
    say(line, credentials)
    return status


def _obtain(config: SourceConfig, credentials: Credentials | None) -> str:
    if config.unprotected:
        say("warning: http without TLS, the code could be changed on its way", credentials)
    destination = Destination(config.destination)
    record = read_record(config.record, config) if config.record else None
    kind, name = ("commit", record.commit) if record else next(iter(config.requested.items()))
    fetched, files = _check_out(config, credentials, Wanted(kind=kind, name=name), destination)
    record = record or new_record(config, fetched)
    if config.record is not None:
        record = publish(config.record, record, config)
    if record.commit != fetched:
        say(f"another pod was faster, taking its commit {record.commit}", credentials)
        _, files = _check_out(config, credentials, Wanted(kind="commit", name=record.commit), destination)
    return _finish(destination, record, files)


def _check_out(
    config: SourceConfig, credentials: Credentials | None, wanted: Wanted, destination: Destination
) -> tuple[str, int]:
    """Fetch into the destination's own folder; return the commit and its number of files."""
    destination.start_over()
    sha = fetch(config.repository, credentials, wanted, destination.objects)
    with closing(DiskObjectStore(destination.objects)) as store:
        commit = commit_of(store, sha)
        tree = tree_of(store, commit, PurePosixPath(config.subdirectory or "."))
        files = write_tree(store, tree, destination.tree)
    return commit.id.decode(), files


def _finish(destination: Destination, record: Record, files: int) -> str:
    destination.complete()
    write_json_atomically(destination.record, record.document())
    kind, name = next(iter(record.requested.items()))
    return f"{record.repository} {kind} {name}: commit {record.commit}, {files} files in {destination.folder}"


def _told(config: SourceConfig, error: OSError) -> str:
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
        raise SourceError(f"not fetched within {seconds:g} s. Fix: see the lines above, or a higher timeout_seconds")

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
