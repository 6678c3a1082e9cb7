"""Waiting for a job's pods, with a kubectl of this test."""

from __future__ import annotations

import os
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from athanor.runs.pod_changes import PodChanges

LONG = 60.0


@pytest.fixture
def watch(tmp_path):
    """Return a function that starts a watch whose events are what the test writes to a pipe."""
    pipe, program = tmp_path / "events", tmp_path / "kubectl"
    os.mkfifo(pipe)
    program.write_text(f"#!/bin/sh\nexec cat {pipe}\n", encoding="utf-8")
    program.chmod(0o755)
    changes = PodChanges(SimpleNamespace(prefix=[str(program)]), "train-1")
    with closing(changes), pipe.open("wb", buffering=0) as events:
        yield changes, events


def seconds_of(wait):
    begin = time.monotonic()
    wait()
    return time.monotonic() - begin


def test_a_change_ends_the_wait_and_several_at_once_are_one(watch):
    changes, events = watch
    events.write(b"pod/train-1-worker-0\npod/train-1-worker-1\n")
    assert seconds_of(lambda: changes.wait(LONG)) < LONG / 2
    assert seconds_of(lambda: changes.wait(0.3)) >= 0.3


def test_a_watch_that_ends_leaves_the_time(watch):
    changes, events = watch
    events.close()
    for _ in range(2):
        assert seconds_of(lambda: changes.wait(0.3)) >= 0.3
