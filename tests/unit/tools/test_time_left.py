"""How long a run still takes, in seconds that a test says."""

import pytest

from tests.tables import each_row
from tools.time_left import TimeLeft, still_needed

STEPS = {"image": 70.0, "tools": 0.0, "platform": 20.0, "serving": 5.0, "monitoring": 30.0}


@pytest.fixture
def outlook():
    return TimeLeft(list(STEPS), STEPS)


def test_what_is_left_is_what_the_steps_ahead_need(outlook):
    assert outlook.left(1000.0) == 125
    outlook.begin("image", 1000.0)
    assert outlook.left(1010.0) == 115
    outlook.end("image")
    assert outlook.left(1060.0) == 55


def test_what_is_done_meanwhile_counts_only_if_it_takes_longer(outlook):
    outlook.wait_until("tools", 1060.0)
    assert outlook.left(1000.0) == 125
    outlook.wait_until("tools", 1500.0)
    assert outlook.left(1000.0) == 500 + 20 + 5 + 30


def test_the_work_of_two_groups_overlaps_with_what_does_not_need_them(outlook):
    outlook.wait_until("tools", 1400.0)
    outlook.wait_until("monitoring", 1500.0)
    assert outlook.left(1000.0, until="serving") == 400 + 20 + 5
    assert outlook.left(1000.0) == 500 + 30


def test_a_step_of_which_nothing_is_known_leaves_all_open():
    assert TimeLeft(["image", "new"], STEPS).left(0.0) is None


@pytest.mark.parametrize(
    ("step", "has_ended", "now", "left"),
    [
        pytest.param("image", False, 1500.0, 55, id="one that takes longer than expected is to end now"),
        pytest.param("serving", False, 1000.0, 35, id="those before a later one do not run"),
        pytest.param("other", True, 1000.0, 125, id="one that was not planned changes nothing"),
        pytest.param("monitoring", True, 1001.0, None, id="after the last one nothing is reported"),
    ],
)
def test_a_step_that_begins_says_what_is_left(*, outlook, step, has_ended, now, left):
    outlook.begin(step, 1000.0)
    if has_ended:
        outlook.end(step)
    assert outlook.left(now) == left


def test_the_share_that_is_done_corrects_the_running_step(outlook):
    outlook.begin("image", 1000.0)
    outlook.advance(0.5)
    assert outlook.left(1100.0) == still_needed(70, 100, 0.5) + 55
    outlook.end("image")
    outlook.begin("platform", 1200.0)
    assert outlook.left(1200.0) == 55, "the share was that of the step before"


@each_row(
    ("elapsed", "share", "left"), [(0, 0, 100), (30, 0, 70), (150, 0, 0), (50, 0.5, 50), (100, 0.5, 75), (400, 1, 0)]
)
def test_the_more_is_done_the_more_counts_how_long_it_took(elapsed, share, left):
    assert still_needed(100, elapsed, share) == left
