"""A wait ends when nothing moves any more, not after the seconds that fitted one machine."""

from __future__ import annotations

import itertools
import time

import pytest

from tests.waiting import wait_for_count, wait_until

STILL_SECONDS = 0.2


def test_a_wait_lasts_as_long_as_something_moves():
    began, moved = time.monotonic(), itertools.count()
    wait_until(
        lambda: time.monotonic() - began > 4 * STILL_SECONDS,
        "four times as long",
        STILL_SECONDS,
        moves=lambda: next(moved),
        look_seconds=0.01,
    )


def test_a_wait_ends_when_nothing_moves():
    with pytest.raises(pytest.fail.Exception, match=r"ready: not within 0 s since anything moved \(3\)"):
        wait_until(lambda: None, "ready", STILL_SECONDS, moves=lambda: 3, look_seconds=0.01)


def test_without_anything_that_moves_it_is_the_time_that_counts():
    with pytest.raises(pytest.fail.Exception, match="ready: not within 0 s, last seen: 0"):
        wait_until(lambda: 0, lambda: "ready", STILL_SECONDS, look_seconds=0.01)


def test_a_count_is_waited_for_while_it_changes():
    counted = itertools.count()
    wait_for_count(lambda: min(next(counted), 3), 3, "three of them")
