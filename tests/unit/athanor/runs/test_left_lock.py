"""Locks of the engine: those of killed commands are removed, and no others."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess

import pytest
from pulumi import automation

from athanor.runs.stack import past_left_locks

OWN = f"{getpass.getuser()}@{socket.gethostname()}"


@pytest.fixture
def ended():
    """The number of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


class Stack:
    """A stack with locks, in the engine's words."""

    def __init__(self, *holders: str) -> None:
        self.holders = list(holders)

    def update(self) -> str:
        if not self.holders:
            return "updated"
        lines = [
            f"  file:///b/.pulumi/locks/a.json: created by {holder} at 2026-11-24T17:14:30Z" for holder in self.holders
        ]
        said = f"error: the stack is currently locked by {len(lines)} lock(s). Either wait\n" + "\n".join(lines)
        result = automation.CommandResult(stdout="", stderr=said, code=255)
        raise automation.errors.create_command_error(result)

    def cancel(self) -> None:
        self.holders.clear()


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_a_lock_whose_process_is_gone_does_not_stop_the_work(ended):
    stack = Stack(f"{OWN} (pid {ended})")
    assert past_left_locks(stack, stack.update) == "updated"


@pytest.mark.parametrize(
    "holder",
    [f"{OWN} (pid {os.getpid()})", f"{getpass.getuser()}@elsewhere (pid %s)", f"else@{socket.gethostname()} (pid %s)"],
    ids=["running", "of another machine", "of another user"],
)
def test_a_lock_of_one_who_may_be_at_work_stays(ended, holder):
    named = holder.replace("%s", str(ended))
    stack = Stack(f"{OWN} (pid {ended})", named)
    with pytest.raises(automation.ConcurrentUpdateError):
        past_left_locks(stack, stack.update)
    assert len(stack.holders) == 2


def test_two_at_once_do_not_remove_the_lock_of_each_other(ended):
    stack = Stack(f"{OWN} (pid {ended})")

    def first_fails_then_another_works() -> str:
        try:
            return stack.update()
        finally:
            stack.holders = [f"{OWN} (pid {os.getpid()})"]

    with pytest.raises(automation.ConcurrentUpdateError):
        past_left_locks(stack, first_fails_then_another_works)
    assert stack.holders == [f"{OWN} (pid {os.getpid()})"]
