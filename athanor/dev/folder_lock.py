"""Several terminals on one folder: one of them synchronises it, and another takes over as soon as that one ends.

The kernel decides when: it passes the lock of a process that has ended, for whatever reason, to a waiting process.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from athanor.dev.session import Session


def take(file: Path) -> IO[str] | None:
    """Return the lock of a folder, to be closed in the end; None if another terminal has it."""
    try:
        return _locked(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def wait_for(file: Path) -> IO[str]:
    """Return the lock, to be closed in the end, when no other terminal has it any more."""
    return _locked(file, fcntl.LOCK_EX)


def _locked(file: Path, how: int) -> IO[str]:
    """Return the lock; with LOCK_EX alone, when no other terminal has it any more.

    Raises:
        BlockingIOError: another one has it, with LOCK_NB.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        lock = file.open("w", encoding="utf-8")
        try:
            fcntl.flock(lock, how)
        except BlockingIOError:
            lock.close()
            raise
        if _is_at(file, lock):
            return lock
        lock.close()  # `athanor dev --stop` removed the file meanwhile, and a lock of it would keep nobody away


def _is_at(file: Path, lock: IO[str]) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(lock.fileno()))
    except FileNotFoundError:
        return False


class Successor(AbstractContextManager["Successor"]):
    """Starts a session when the terminal that has the lock of its folder ends."""

    def __init__(self, file: Path, session: Session, say: Callable[[str], None]) -> None:
        """Wait from now on, in a thread.

        Args:
            file: The lock's.
            session: Not started, nor entered.
            say: Shows that it took over.
        """
        self._file, self._session, self._say = file, session, say
        self._deciding = threading.Lock()
        self._ended = False
        self._lock: IO[str] | None = None
        # A daemon: nothing wakes it as long as the other terminal runs.
        threading.Thread(target=self._take_over, daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session if it was started, as the session itself does, and wait no longer."""
        with self._deciding:
            self._ended = True
        if self._lock is not None:
            with self._lock:
                self._session.__exit__(kind, error, trace)

    def _take_over(self) -> None:
        lock = _locked(self._file, fcntl.LOCK_EX)
        with self._deciding:
            if self._ended:
                lock.close()
                return
            self._lock = lock
            self._say("the other athanor dev has ended: this one now syncs the folder")
            self._session.start()
