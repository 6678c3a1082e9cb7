"""A sweep as a component: a job for each point, the same ones each time."""

from __future__ import annotations

import pytest

from athanor import BatchJobArgs, PyTorchJobArgs, RefusalError, Sweep, SweepArgs
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import plain_platform

JOB = PyTorchJobArgs(program=("train.py", "--lr={lr}", "--layers", "{layers}", "${HOME}"), workers=1)
GRID = {"lr": "0.1,0.01", "layers": "2..4"}
RANDOM = {
    "lr": "1e-4..1e-1:log",
    "layers": "2..64",
    "dropout": "0..0.5:0.1",
    "optimizer": "sgd,adam",
    "decay": "0..0.1",
}
USES_ALL = PyTorchJobArgs(program=("train.py", *(f"--{name}={{{name}}}" for name in RANDOM)), workers=1)


def drawn(**changes: object) -> list[dict[str, str]]:
    given = {"job": USES_ALL, "parameters": RANDOM, "search": "random", "trials": 20, **changes}
    return SweepArgs(**given).points()


def test_a_grid_is_a_job_for_each_combination():
    recording = record(lambda: Sweep("rate", plain_platform(), SweepArgs(job=JOB, parameters=GRID)), preview=False)
    # The SDK registers resources side by side, in any order.
    jobs = {each.name: each for each in recording.of_kind("Job")}
    assert set(jobs) == {f"rate-{number}" for number in range(6)}
    assert all("athanor:sweep:Sweep" in each.urn for each in jobs.values())
    [command] = [each["args"] for each in jobs["rate-5"].inputs["spec"]["tasks"][0]["template"]["spec"]["containers"]]
    assert command[-4:] == ["--lr=0.01", "--layers", "4", "${HOME}"]


def test_a_batch_job_has_its_values_in_its_command():
    args = SweepArgs(job=BatchJobArgs(command=("convert", "{size}")), parameters={"size": "64,128"})
    assert [args.with_values(point).command for point in args.points()] == [("convert", "64"), ("convert", "128")]


def test_random_points_are_in_their_ranges():
    for point in drawn(trials=500):
        assert 1e-4 <= float(point["lr"]) <= 1e-1
        assert 2 <= int(point["layers"]) <= 64
        assert point["dropout"] in {"0", "0.1", "0.2", "0.3", "0.4", "0.5"}
        assert point["optimizer"] in {"sgd", "adam"}
        assert 0 <= float(point["decay"]) <= 0.1


def test_on_a_log_scale_factors_are_equally_likely():
    below = sum(float(point["lr"]) < 1e-3 for point in drawn(trials=900))
    assert 240 < below < 360


def test_the_same_seed_draws_the_same_points_whatever_their_number():
    assert drawn(trials=30)[:20] == drawn() == drawn()
    assert drawn(seed=1) != drawn()


@each_row(
    ("changes", "words"),
    [
        ({"parameters": {}}, ("parameters = {}", "nothing to search")),
        ({"parameters": {"lr": "0.1,0.01"}}, ("command = '{layers}'",)),
        ({"parameters": {**GRID, "size": "1,2"}}, ("--param = 'size'", "does not use")),
        ({"parameters": {**GRID, "lr": "0.1"}}, ("lr = '0.1'", "a single value")),
        ({"parameters": {**GRID, "lr": "1e-4..1e-1:log"}}, ("lr = '0.0001..0.1:log'", "no points for a grid")),
        ({"trials": 3}, ("trials = 3", "as many trials as points")),
        ({"search": "random"}, ("trials = None", "trials=20")),
        ({"search": "random", "trials": 0}, ("trials = 0", "1 to 1000")),
        ({"search": "tpe"}, ("search = 'tpe'",)),
    ],
)
def test_what_could_not_run_is_refused(changes, words):
    with pytest.raises(RefusalError) as caught:
        SweepArgs(**{"job": JOB, "parameters": GRID, **changes})
    assert all(word in str(caught.value) for word in words), str(caught.value)
