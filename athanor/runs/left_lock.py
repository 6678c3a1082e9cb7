"""Stale locks of a killed engine on a stack, recognised by a process that no longer exists on this machine."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pulumi.automation import ConcurrentUpdateError

from athanor.runs.backend import data_folder
from athanor.runs.login_name import login_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pulumi.automation import Stack

Result = TypeVar("Result")
_HOLDER = re.compile(r"created by (?P<user>\S+)@(?P<host>\S+) \(pid (?P<pid>\d+)\)")
"""The engine's description of a lock's holder, a line for each (pulumi, pkg/backend/diy/lock.go)."""


def past_left_locks(stack: Stack, work: Callable[[], Result]) -> Result:
    """Run some work on a stack despite locks that killed commands of this machine left; return its result.

    Args:
        stack: The stack.
        work: Which the engine does.

    Raises:
        ConcurrentUpdateError: another command is at work, or nobody knows here whether it is.
    """
    try:
        return work()
    except ConcurrentUpdateError as error:
        if not _is_left(str(error)):
            raise
    with _one_at_a_time():
        try:  # another one may have been here first, and its own lock must stay
            return work()
        except ConcurrentUpdateError as error:
            if not _is_left(str(error)):
                raise
        stack.cancel()
        return work()


def _is_left(said: str) -> bool:
    """Return whether all locks are of processes of this user and machine that no longer run."""
    holders = list(_HOLDER.finditer(said))
    own = (login_name(), socket.gethostname())
    return bool(holders) and all(
        (each["user"], each["host"]) == own and not _runs(int(each["pid"])) for each in holders
    )


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


@contextmanager
def _one_at_a_time() -> Generator[None]:
    folder = data_folder(os.environ)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "left-locks.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
