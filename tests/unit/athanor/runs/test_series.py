"""What a program's lines say of its progress, whatever else it prints."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from athanor.runs.listing import Run
from athanor.runs.series import read_series, sparkline
from athanor.runs.watch import fields, view
from tests.tables import each_row

LINES = """2026-01-01T10:00:00.123456789Z {"message": "started", "total_steps": 100}
2026-01-01T10:00:10.000000000Z {"step": 10, "loss": 2.0, "ok": true, "note": "x"}
2026-01-01T10:00:15Z epoch 1: 50%
2026-01-01T10:00:20.000000000Z {"step": 20, "loss": NaN}
2026-01-01T10:00:30.000000000Z {"step": 30, "loss": 1.0, "samples_per_second": 55.5}
"""


def test_steps_pace_and_time_left():
    series = read_series(LINES)
    assert [point.step for point in series.points] == [10, 30]
    assert series.values("loss") == [2.0, 1.0]
    assert series.points[0].at == datetime(2026, 1, 1, 10, 0, 10, tzinfo=UTC)
    assert (series.steps_per_second(), series.seconds_left()) == (1.0, 70.0)


def test_hyperparameters_are_those_of_the_latest_line_that_has_them():
    lines = ['{"hyperparameters": {"lr": 1, "depth": 2}}', '{"hyperparameters": 3}', '{"hyperparameters": {"lr": 0.5}}']
    assert read_series("\n".join(lines)).settings == {"lr": 0.5, "depth": 2}


def test_without_times_and_totals_nothing_is_claimed():
    series = read_series('{"step": 1, "loss": 1}\n{"step": 2, "loss": 1}\n')
    assert (series.step, series.steps_per_second(), series.seconds_left()) == (2, None, None)


def test_a_program_that_knows_the_time_left_is_believed():
    said = LINES.replace('"loss": 1.0,', '"loss": 1.0, "total_steps": 100, "seconds_left": 12.5,')
    series = read_series(said + '2026-01-01T10:00:31Z {"step": 30, "event": "checkpoint_saved", "seconds": 0.1}\n')
    assert series.seconds_left() == 12.5
    assert series.names() == ["loss", "samples_per_second", "seconds"]
    assert read_series('{"step": 1, "loss": 1, "seconds_left": -3}').seconds_left() == 0


def test_a_restart_gives_no_negative_pace():
    again = LINES + '2026-01-01T10:01:00.000000000Z {"step": 5, "loss": 1.5}\n'
    assert read_series(again).steps_per_second() is None


@given(st.text())
def test_any_text_is_read(text):
    read_series(text)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_any_field_is_read(value):
    series = read_series(json.dumps({"step": value, "loss": value, "total_steps": value}))
    assert len(sparkline(series.values("loss"))) == len(series.points)


def test_numbers_without_end_are_left_out():
    assert read_series(f'{{"step": 1, "loss": {"9" * 400}, "a": 1e308, "b": 1}}').names() == ["b"]


@each_row(
    ("values", "curve"),
    [([], ""), ([1.0], "▁"), ([0.0, 1.0], "▁█"), ([1.0, 1.0, 1.0], "▁▁▁"), (list(range(8)), "▁▂▃▄▅▆▇█")],
)
def test_a_curve_of_one_line(values, curve):
    assert sparkline(values) == curve


def test_a_long_curve_is_as_wide_as_it_may_be():
    assert len(sparkline([float(each) for each in range(1001)], width=40)) == 40


def test_a_run_is_seen_at_a_glance():
    pods = [{"metadata": {"name": "train-1-worker-0"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}]
    run = Run(run="train", phase="Running", waited_seconds=5, ran_seconds=65, gpus=8)
    said = json.loads(json.dumps(fields(run, "", pods, read_series(LINES))))
    assert (said["run"], said["step"], said["seconds_left"]) == ("train", 30, 70.0)
    assert said["latest"] == {"loss": 1.0, "samples_per_second": 55.5}
    assert said["pods"] == [{"pod": "train-1-worker-0", "phase": "Running", "node": "n1"}]
    assert view(run, "", pods, read_series(LINES)) == [
        "train  Running  waited 5s, ran 1m 5s, 8 GPUs",
        "  step 30 of 100, 1 steps/s, 1m 10s left",
        "  loss                 1          █▁",
        "  samples_per_second   55.5       ▁",
        "  train-1-worker-0  Running  n1",
    ]
    known = view(run, "", pods, read_series('{"step": 1, "mfu": 0.4, "test_loss": 2, "epoch": 1}'))
    assert [line.split()[0] for line in known[2:-1]] == ["mfu", "test_loss"]
