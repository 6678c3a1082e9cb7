"""Where two runs differ, as lines and as JSON."""

from __future__ import annotations

import json

from athanor.runs.comparison import Comparison
from athanor.runs.series import read_series
from tests.unit.athanor.runs.test_series import LINES

ARGUMENTS = (
    json.dumps({"kind": "PyTorchJob", "program": "a --lr 1", "learning_rate": 0.000123456}),
    json.dumps({"kind": "PyTorchJob", "program": "a"}),
)


def compared(second: str) -> Comparison:
    return Comparison.of(("one", "two"), ARGUMENTS, (read_series(LINES), read_series(second)))


def test_two_runs_differ_in_their_arguments_and_values():
    assert [line.split() for line in compared("").lines()] == [
        ["one", "two"],
        ["learning_rate", "0.000123456", "-"],
        ["program", "a", "--lr", "1", "a"],
        ["latest", "step", "30", "-"],
        ["loss,", "latest", "1", "-"],
        ["samples_per_second,", "latest", "55.5", "-"],
        ["1", "more", "arguments", "are", "the", "same"],
    ]
    assert json.loads(json.dumps(compared("").to_json())) == {
        "runs": ["one", "two"],
        "arguments": {"learning_rate": [0.000123456, None], "program": ["a --lr 1", "a"]},
        "step": [30, None],
        "latest": {"loss": [1.0, None], "samples_per_second": [55.5, None]},
    }


def test_hyperparameters_that_programs_print_count_like_arguments():
    lines = [LINES + json.dumps({"hyperparameters": {"lr": lr, "depth": 2, "name": "a\x1b[2J"}}) for lr in (0.1, 0.2)]
    both = Comparison.of(("one", "two"), ("", ""), (read_series(lines[0]), read_series(lines[1])))
    assert (both.differing, both.same) == ({"lr": (0.1, 0.2)}, 2)
    other = Comparison.of(("one", "two"), ("", ""), (read_series(lines[0]), read_series(LINES)))
    [name] = [line for line in other.lines() if line.startswith("name")]
    assert "\x1b" not in name


def test_curves_stand_where_both_runs_have_the_loss():
    assert [line for line in compared(LINES).lines() if "█" in line] == ["one: loss █▁", "two: loss █▁"]


def test_runs_of_an_earlier_release_recorded_no_arguments():
    both = Comparison.of(("one", "two"), ("", ""), (read_series(""), read_series("")))
    assert (both.differing, both.lines()) == ({}, ["             one  two", "latest step  -    -"])
