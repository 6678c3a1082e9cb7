"""How a sweep runs its trials, with runs of this process and optuna's real storage."""

from __future__ import annotations

import pytest

from athanor.sweep.runs import StartError
from athanor.sweep.table import lines, table, to_json
from infra.errors import RefusalError
from tests.unit.athanor.sweep.sweeps import GRID, Client, OwnRuns, Run, plan

STOPPING = ("--stop-early", "median", "--stop-early-after", "1")


def _rate(program: list[str]) -> float:
    return float(program[-1])


def _worse_with_the_rate(program: list[str]) -> Run:
    """Print three losses, the first of which is the rate."""
    return Run(program, [_rate(program), _rate(program) / 2, _rate(program) / 4])


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal"


def test_a_grid_tries_every_point_once_so_many_at_a_time(journal):
    client = Client(plan(*GRID, "--parallel", "2"), OwnRuns(_worse_with_the_rate), journal)
    rows = client.work()
    assert [row.values["lr"] for row in rows] == ["1", "2", "3", "4"], "in the order in which they were written"
    assert [(row.state, row.run) for row in rows] == [("completed", f"tune-{number}") for number in range(4)]
    assert {row.values["lr"]: row.metric for row in rows} == {"1": 0.25, "2": 0.5, "3": 0.75, "4": 1.0}
    assert [row.values["lr"] for row in rows if row.best] == ["1"]
    assert client.runs.most == 2
    assert client.runs.started == ["tune-0", "tune-1", "tune-2", "tune-3"]


def test_the_best_is_the_largest_where_that_is_the_goal(journal):
    rows = Client(plan(*GRID, "--goal", "maximize"), OwnRuns(_worse_with_the_rate), journal).work()
    assert [row.values["lr"] for row in rows if row.best] == ["4"]


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_values_are_chosen_within_their_ranges(journal, search):
    words = ("--param=lr=1e-4..1e-1:log", "--param=n=2..8:2", "--param=o=adam,sgd", "--search", search, "--trials", "6")
    runs = OwnRuns(lambda program: Run(program, [float(program[1])]))
    rows = Client(plan(*words, command=("--", "a", "{lr}", "{n}", "{o}")), runs, journal).work()
    assert len(rows) == 6
    for row, run in zip(rows, runs.alive.values(), strict=True):
        assert 1e-4 <= row.values["lr"] <= 1e-1
        assert row.values["n"] in {2, 4, 6, 8}
        assert row.values["o"] in {"adam", "sgd"}
        assert run.program == ["a", repr(row.values["lr"]), str(row.values["n"]), row.values["o"]]
    assert len({row.values["lr"] for row in rows}) == 6


@pytest.mark.parametrize("killed_at", range(1, 12))
def test_another_client_goes_on_without_losing_or_repeating_a_trial(journal, killed_at):
    runs = OwnRuns(_worse_with_the_rate, killed_at=killed_at)
    first = Client(plan(*GRID, "--parallel", "2"), runs, journal)
    with pytest.raises(KeyboardInterrupt):
        first.work()
    completed = {trial.number: trial.value for trial in first.trials.all() if trial.state.is_finished()}
    second = Client(first.plan, runs.of_another_client(), journal)
    rows = second.work()
    assert completed.items() <= {row.trial: row.metric for row in rows}.items()
    assert [row.values["lr"] for row in rows] == ["1", "2", "3", "4"], "in the order in which they were written"
    assert {row.state for row in rows} == {"completed"}
    assert sorted(second.runs.started) == [f"tune-{number}" for number in range(4)]


def test_trials_that_a_killed_client_only_began_are_started_with_their_values(journal):
    words = ("--param=lr=1..9", "--param=n=1..9", "--search=random", "--trials=3", "--parallel=3")
    first = Client(plan(*words, command=("--", "a", "{n}", "{lr}")), OwnRuns(_worse_with_the_rate), journal)
    first.runs.killed_at = 1
    with pytest.raises(KeyboardInterrupt):
        first.work()
    kept = first.trials.values(0)
    # Killed while it started the second, and while optuna chose the values of the third.
    begun = first.trials.values(first.trials.add())
    first.trials._study.ask()
    second = Client(first.plan, first.runs.of_another_client(), journal)
    rows = second.work()
    assert second.runs.alive["tune-0"].program == ["a", kept["n"], kept["lr"]]
    assert second.runs.alive["tune-1"].program == ["a", begun["n"], begun["lr"]]
    assert [(row.state, len(row.values)) for row in rows] == [("completed", 2)] * 3


def _good_first(program: list[str]) -> Run:
    """The rate 1 is good and ends, all others are worse and never end by themselves."""
    return Run(program, [1, 0.5, 0.25]) if _rate(program) == 1 else Run(program, [9, 8, 7], then="Running")


def test_a_trial_worse_than_the_median_is_stopped_and_deleted(journal):
    client = Client(plan(*GRID, *STOPPING, "--parallel", "4"), OwnRuns(_good_first), journal)
    rows = client.work()
    assert {row.values["lr"]: row.state for row in rows} == {
        "1": "completed", "2": "stopped early", "3": "stopped early", "4": "stopped early",
    }  # fmt: skip
    assert [run.program[-1] for run in client.runs.alive.values()] == ["1"]
    assert client.said == []


def test_nothing_is_stopped_unless_asked_for_and_not_before_enough_completed(journal, tmp_path):
    def slower(program: list[str]) -> Run:
        return Run(program, [_rate(program)] * 9, pace=1 / _rate(program))

    for number, words in enumerate([(), ("--stop-early=median",)]):
        client = Client(plan(*GRID, *words, "--parallel", "4"), OwnRuns(slower), tmp_path / str(number))
        assert {row.state for row in client.work()} == {"completed"}
    stopping = Client(plan(*GRID, *STOPPING, "--parallel", "4"), OwnRuns(slower), journal)
    assert {row.values["lr"] for row in stopping.work() if row.state == "stopped early"} == {"2", "3", "4"}


def test_a_run_whose_deletion_a_kill_cut_off_is_deleted_by_the_next_client(journal):
    client = Client(plan(*GRID, *STOPPING, "--parallel", "4"), OwnRuns(_good_first), journal)
    client.runs.delete = lambda _: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        client.work()
    assert len(client.trials.to_delete()) == 1
    second = Client(client.plan, OwnRuns(_good_first, alive=client.runs.alive), journal)
    second.work()
    assert second.trials.to_delete() == []
    assert [run.program[-1] for run in second.runs.alive.values()] == ["1"]
    third = Client(client.plan, second.runs.of_another_client(), journal)
    third.work()
    assert third.said == []


def test_a_run_that_could_not_be_deleted_is_named(journal):
    client = Client(plan(*GRID, *STOPPING, "--parallel", "4"), OwnRuns(_good_first), journal)
    client.runs.wrong = "no"
    client.work()
    assert len(client.said) == 3
    assert "was not deleted: no" in client.said[0]


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (Run([], [], then="Failed"), "Failed"),
        (Run([], []), 'completed, but no line has loss: print lines such as {"step": 1, "loss": 0.5}'),
    ],
)
def test_a_trial_without_a_result_fails_and_the_others_go_on(journal, run, reason):
    def program(words: list[str]) -> Run:
        return run if words[-1] == "3" else _worse_with_the_rate(words)

    rows = Client(plan(*GRID), OwnRuns(program), journal).work()
    assert [(row.values["lr"], row.reason) for row in rows if row.state == "failed"] == [("3", reason)]
    assert [row.state for row in rows].count("completed") == 3
    assert f": {reason}" in table(rows, "loss")[-1]


def test_a_metric_by_another_name_is_reported(journal):
    client = Client(plan(*GRID, "--metric", "accuracy"), OwnRuns(_worse_with_the_rate), journal)
    with pytest.raises(
        RefusalError, match=r"sweep = 'tune': its first 3 trials have all failed. Fix: see `athanor logs"
    ):
        client.work()
    assert client.runs.started == ["tune-0", "tune-1", "tune-2"]
    assert client.rounds[-1][0].reason == "completed, but no line has accuracy: its lines have loss"


def test_a_run_that_somebody_deleted_is_not_started_again(journal):
    runs = OwnRuns(_worse_with_the_rate)
    client = Client(plan(*GRID), runs, journal)

    def wait() -> None:
        if len(runs.started) == 2 and "tune-1" in runs.alive and runs.alive["tune-1"].printed_losses == 2:
            del runs.alive["tune-1"]

    runs.wait = wait
    assert [row.reason for row in client.work() if row.state == "failed"] == ["its job is gone from the cluster"]


def test_the_first_trial_shows_whether_any_can_start(journal):
    client = Client(plan(*GRID, "--parallel", "4"), OwnRuns(_worse_with_the_rate, refuses="queue = 'nope'"), journal)
    with pytest.raises(StartError, match="queue = 'nope'"):
        client.work()
    assert client.runs.started == ["tune-0"]


def test_steps_are_kept_to_two_digits(journal):
    losses = [float(number) for number in range(300)]
    client = Client(plan("--param=lr=1,2", "--search=grid"), OwnRuns(lambda program: Run(program, losses)), journal)
    client.work()
    kept = client.trials.all()[0].intermediate_values
    assert sorted(kept)[:3] == [10, 20, 30]
    assert sorted(kept)[-3:] == [2800, 2900, 3000]
    assert len(kept) == 99 // 10 + 90 + 21
    assert (kept[1000], kept[3000]) == (99.0, 299.0)


def test_what_is_shown(journal, capsys):
    client = Client(plan("--param=lr=1,2", "--search=grid"), OwnRuns(_worse_with_the_rate), journal)
    rows = client.work()
    show = lines("loss", "sweep tune")
    for rows_of_a_round in client.rounds:
        show(rows_of_a_round)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "sweep tune"
    assert len(said) == len(set(said))
    best = next(row for row in rows if row.best)
    assert [line for line in said if line.startswith(best.run)] == [
        f"{best.run}: starting (lr=1)",
        f"{best.run}: Running, loss 1 (lr=1)",
        f"{best.run}: completed, loss 0.25 (lr=1)",
    ]
    assert table(rows, "loss")[0].split() == ["TRIAL", "RUN", "STATE", "LR", "STEP", "LOSS"]
    assert [line.split() for line in table(rows, "loss") if line.startswith("*")] == [
        ["*", str(best.trial), best.run, "completed", "1", "30", "0.25"]
    ]
    answer = to_json("tune", rows, None)
    assert answer["best"] == best.run
    assert answer["trials"][best.trial]["values"] == {"lr": "1"}
