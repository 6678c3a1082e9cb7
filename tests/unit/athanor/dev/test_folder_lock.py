"""Terminals of one folder: which of them keeps it equal, and who takes over when that one ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from athanor.dev.folder_lock import Successor, take
from tests.waiting import wait_until

_HOLDS = """
import pathlib, signal, sys
from athanor.dev.folder_lock import take
lock = take(pathlib.Path(sys.argv[1]))
print(lock is not None, flush=True)
signal.pause()
"""
_LONG = 60
LOCKS = Path("/proc/locks")
"""Those of the kernel: a line with -> is of one that waits."""


class OneSession:
    """A session that only says what was done to it."""

    def __init__(self) -> None:
        self.started, self.errors = threading.Event(), []

    def start(self) -> None:
        self.started.set()

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        self.errors.append(error)


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "dev" / "a.lock"


@pytest.fixture
def session() -> OneSession:
    return OneSession()


def test_one_terminal_at_a_time_keeps_a_folder_equal(file):
    first = take(file)
    assert first
    assert take(file) is None
    first.close()
    again = take(file)
    assert again
    again.close()


def test_the_next_one_takes_over_from_a_process_that_is_killed_and_says_so(file, session, said):
    holder = subprocess.Popen([sys.executable, "-c", _HOLDS, str(file)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout
        assert holder.stdout.readline() == "True\n"
        with Successor(file, session, said.append):
            assert not session.started.wait(0.2)
            assert not said
            holder.send_signal(signal.SIGKILL)
            assert session.started.wait(_LONG)
            assert take(file) is None
    finally:
        holder.kill()
        holder.communicate()
    assert session.errors == [None]
    assert said == ["the other athanor dev has ended: this one now syncs the folder"]
    last = take(file)
    assert last
    last.close()


def test_a_session_ends_with_what_ended_the_command(file, session, said):
    first = take(file)
    assert first
    problem = OSError("the disk is full")
    with suppress(OSError), Successor(file, session, said.append):
        first.close()
        assert session.started.wait(_LONG)
        raise problem
    assert session.errors == [problem]


def test_one_that_ended_first_starts_nothing_and_keeps_nobody_away(file, session, said):
    first = take(file)
    assert first
    before = set(threading.enumerate())
    with Successor(file, session, said.append):
        [waits] = set(threading.enumerate()) - before
    first.close()
    waits.join(_LONG)
    assert not session.started.is_set()
    assert (session.errors, said) == ([], [])
    last = take(file)
    assert last
    last.close()


def test_of_two_that_wait_one_takes_over_and_the_other_goes_on_waiting(file, said):
    first, sessions = take(file), [OneSession(), OneSession()]
    assert first
    started = threading.Semaphore(0)
    for each in sessions:
        each.start = started.release
    with Successor(file, sessions[0], said.append), Successor(file, sessions[1], said.append):
        first.close()
        assert started.acquire(timeout=_LONG)
        assert not started.acquire(timeout=0.2)


def test_a_lock_that_was_removed_meanwhile_is_not_taken_for_the_folders(file, session, said):
    first = take(file)
    assert first
    with Successor(file, session, said.append):
        inode = f":{file.stat().st_ino} "
        wait_until(lambda: any("->" in line and inode in line for line in LOCKS.read_text().splitlines()), "the waiter")
        file.unlink()  # as `athanor dev --stop` does
        second = take(file)
        assert second
        first.close()
        assert not session.started.wait(0.5)
        second.close()
        assert session.started.wait(_LONG)
