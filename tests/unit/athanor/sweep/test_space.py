"""Which search spaces and commands a sweep takes, and how it refuses the others."""

from __future__ import annotations

import pytest

from athanor.sweep.parameter import read_parameter
from athanor.sweep.plan import read_plan
from athanor.sweep.space import fill, read_space
from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.athanor.sweep.sweeps import COMMAND, given, plan

TEXT = "--param=lr=1,2"


@each_row(
    ("words", "points"),
    [
        ("lr=0.1,1e-3,adam", ("0.1", "1e-3", "adam")),
        ("n=2..5", ("2", "3", "4", "5")),
        ("n=-4..4:4", ("-4", "0", "4")),
        ("n=32..100:32", ("32", "64", "96")),
        ("p=0.1..0.4:0.1", ("0.1", "0.2", "0.3", "0.4")),
        ("p=0..1:0.25", ("0", "0.25", "0.5", "0.75", "1")),
        ("path=../a,../b", ("../a", "../b")),
    ],
)
def test_the_points_of_a_parameter(words, points):
    assert read_parameter(words).points() == points


def test_a_file_says_the_same_as_options(tmp_path):
    file = tmp_path / "space.yaml"
    file.write_text(
        "lr: {low: 1e-4, high: 0.1, log: true}\nn: {low: 2, high: 8, step: 2}\nname: [adam, sgd]\n", encoding="utf-8"
    )
    assert read_space([], str(file)) == read_space(["lr=1e-4..0.1:log", "n=2..8:2", "name=adam,sgd"], None)


@each_row(
    "scalar",
    [
        *(
            "3.10",
            "1.0",
            "1e3",
            "1_000",
            ".5",
            "+1",
            "007",
            "0o17",
            "0x10",
            "0b101",
            "4:3",
            "190:20:30.15",
            "2026-11-27",
        ),
        *("yes", "no", "on", "off", "y", "true", "True", "NULL", "null", "~", ".inf", "-.inf", ".nan", "=", "<<"),
        *("12e03", "685_230.15", "0b1010_0111_0100_1010_1110", "2001-12-14t21:59:43.10-05:00", "Infinity", "1,5"),
    ],
)
def test_values_in_a_file_are_taken_as_written(tmp_path, scalar):
    """Unquoted, each but the last two is a number, a date, a truth value or nothing to YAML 1.1 (yaml.org/type)."""
    file = tmp_path / "space.yaml"
    file.write_text(f"yes:\n- {scalar}\n- '{scalar} '\n", encoding="utf-8")
    [parameter] = read_space([], str(file))
    assert (parameter.name, parameter.choices) == ("yes", (scalar, f"{scalar} "))


def test_only_the_names_in_braces_are_replaced():
    words = ["sh", "-c", "echo ${HOME} {lr} '{\"a\": 1}' {}", "--lr={lr}"]
    assert fill(words, {"lr": "0.1"}) == ["sh", "-c", "echo ${HOME} 0.1 '{\"a\": 1}' {}", "--lr=0.1"]


@each_row(
    ("words", "message"),
    [
        ([], "--param = '': a sweep without parameters has nothing to search. Fix: give at least one"),
        (["--param=lr=0.1"], "lr = '0.1': has a single value"),
        (["--param=lr=0.1..O.2"], "lr = '0.1..O.2': is not a range of numbers"),
        (["--param=lr="], "lr = '': has an empty value"),
        (["--param=lr=1,2,1"], "lr = '1': is listed twice"),
        (["--param=1r=1,2"], "--param = '1r=1,2': must be NAME=VALUES"),
        (["--param=lr=1,2", "--param=lr=1..2"], "--param = 'lr': is given twice"),
        (["--param=lr=2..1"], r"lr = '2..1': has no values: .* Fix: write 1..2"),
        (["--param=lr=-1..1:log"], "lr = '-1..1': a log scale has no values at or below 0"),
        (["--param=lr=0..1:log"], "lr = '0..1': a log scale has no values at or below 0"),
        (["--param=lr=0..1:x"], "lr = 'x': is not a number"),
        (["--param=lr=1..2:0"], "lr = '1..2:0': the step 0 must be above 0 and at most 1"),
        (["--param=lr=1..2:3"], "lr = '1..2:3': the step 3 must be above 0 and at most 1"),
        (["--param=lr=0.5..1", "--search=grid"], "lr = '0.5..1': a range without a step has no points for a grid"),
        (["--param=lr=1..9:log", "--search=grid"], "lr = '1..9:log': a range without a step has no points for a grid"),
        (["--param=lr=1..999999999", "--search=grid"], "lr = '1..999999999:1': has 999999999 points, .* may have 1000"),
        ([TEXT, "--search=grid", "--trials=1"], "--trials = 1: the grid has 2 points, and all of them are tried"),
        ([TEXT], "--trials = None: must be given for --search tpe"),
        ([TEXT, "--trials=0"], "--trials = 0: must be 1 to 1000"),
        ([TEXT, "--trials=9", "--parallel=33"], "--parallel = 33: must be 1 to 32"),
        ([TEXT, "--trials=9", "--stop-early-after=0"], "--stop-early-after = 0: must be 1 to 1000"),
    ],
)
def test_what_cannot_be_searched_is_refused(words, message):
    with pytest.raises(RefusalError, match=message):
        plan(*words)


def test_a_grid_of_too_many_points_names_the_sizes():
    with pytest.raises(RefusalError, match=r"the grid has 1600 points \(lr: 40, n: 40\), and may have 1000"):
        plan("--param=lr=1..40", "--param=n=1..40", "--search=grid", command=("--", "a", "{lr}", "{n}"))


def test_a_command_and_its_parameters_must_fit():
    with pytest.raises(RefusalError, match=r"command = '{rl}': .* Fix: did you mean lr\?"):
        plan(TEXT, "--search=grid", command=("--", "a", "{rl}"))
    with pytest.raises(RefusalError, match=r"--param = 'lr': the command does not use .* such as --lr {lr}"):
        plan(TEXT, "--search=grid", command=("--", "a", "${lr}"))


@each_row(
    ("text", "message"),
    [
        ("- 1", "has no keys"),
        ("", "has no keys"),
        ("lr: [", "cannot be read"),
        ("lr: 0.1", "lr = '0.1': must be a list of values or a range"),
        ("lr: {low: 1, hihg: 2}", "must have low and high, and may have step or log, not hihg"),
        ("lr: {low: 1}", "must have low and high"),
        ("lr: {low: 1, high: 2, log: 3}", "lr.log = '3': must be true or false"),
        ("lr: [[1], 2]", r"lr = \['1'\]: must be text or a number"),
        ("lr: {low: 0x10, high: 32}", "lr = '0x10': is not a number"),
        ("lr: [1, 2]\nlr: [3, 4]", "lr is given twice"),
        ("lr: {low: 1, low: 2, high: 3}", "low is given twice"),
        ("lr: ['', 1]", "has an empty value"),
        ("lr: [1, 2]\n---\nlr: [3, 4]", "cannot be read: expected a single document"),
        ("'a b': [1, 2]", "must be NAME=VALUES"),
    ],
)
def test_what_a_file_may_not_say(tmp_path, text, message):
    file = tmp_path / "space.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RefusalError, match=message):
        read_space([], str(file))


def test_a_file_that_does_not_exist():
    with pytest.raises(RefusalError, match=r"--space = 'nope\.yaml': cannot be read: No such file"):
        read_space([], "nope.yaml")


@each_row("name", ["Tune", "t" * 70])
def test_trials_must_have_names(name):
    with pytest.raises(RefusalError, match="name"):
        read_plan(given(TEXT, "--trials=3", *COMMAND), name)
