"""`athanor runs`: what it reads again, what it remembers, and what is left of runs whose jobs are gone."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from athanor.runs import overview as module
from athanor.runs import stack
from athanor.runs.engine_error import EngineError
from athanor.runs.history import Seen, forget
from athanor.runs.overview import overview
from athanor.runs.series import read_series
from athanor.runs.state_files import KnownRun
from infra.errors import RefusalError
from workloads.owner import owner_label

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
POOL = SimpleNamespace(name="a10", gpus_per_node=1, instance_types=["ecs.gn7i-c8g1.2xlarge"])
OFFERS = SimpleNamespace(pools=[POOL])


class World:
    """A backend and a cluster, and how often they were asked."""

    server, namespace = "https://10.0.0.1:6443", "team"

    def __init__(self) -> None:
        self.stacks: dict[str, str] = {"lr": "2026-01-01T10:00:00Z"}
        self.jobs = [self.job("lr", "lr-1", "Running")]
        self.printed = '{"step": 3, "loss": 0.5}\n{"step": 4, "loss": 0.25, "accuracy": 0.9}\n'
        self.outputs_read: list[str] = []
        self.logs_read: list[str] = []
        self.questions: list[str] = []
        self.wrong: set[str] = set()
        self.hangs = False
        self.recorded_server: str | None = None
        self.recorded_namespace = "team"

    @staticmethod
    def job(run: str, name: str, phase: str, owner: str | None = None) -> dict:
        spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
        conditions = [{"status": "Running", "lastTransitionTime": "2026-01-01T11:00:00Z"}]
        if phase != "Running":
            conditions.append({"status": phase, "lastTransitionTime": "2026-01-01T11:30:00Z"})
        labels = {"athanor.dev/job": run, "athanor.dev/owner": owner or owner_label("athanor-runs", run)}
        return {
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T10:00:00Z", "labels": labels},
            "spec": {"tasks": [{"replicas": 2, "template": {"spec": spec}}]},
            "status": {"state": {"phase": phase}, "conditions": conditions},
        }

    def items(self, kind: str, selector: str) -> list[dict]:
        self.questions.append(selector)
        if kind == "pods":
            return []
        assert (kind, selector) == ("jobs.batch.volcano.sh", "athanor.dev/job,athanor.dev/owner")
        return self.jobs

    def known(self) -> dict[str, KnownRun]:
        return {name: KnownRun(updated=updated, outputs=None) for name, updated in self.stacks.items()}

    def outputs(self, name: str) -> dict[str, str]:
        self.outputs_read.append(name)
        if name in self.wrong:
            raise EngineError("incorrect passphrase")
        jobs = {job["metadata"]["labels"]["athanor.dev/job"]: job["metadata"]["name"] for job in self.jobs}
        job = jobs.get(name, "old-1")
        arguments = {"program": "train.py --lr 0.1", "source": "sha256 2b50b04353dd", "pool": "a10"}
        return {
            "job_name": job,
            "namespace": self.recorded_namespace,
            **({} if self.recorded_server is None else {"server": self.recorded_server}),
            "arguments": json.dumps(arguments),
            "by": "ada",
        }

    def series(self, _cluster: object, job: str, _pods: object):
        self.logs_read.append(job)
        if self.hangs:
            raise RefusalError("pod", f"{job}-worker-0", "has a log that node-1 did not send in 60 s", "try again")
        return read_series(self.printed)

    def listed(self) -> dict[str, dict]:
        return {each.run.run: each.to_json() for each in overview(self, OFFERS, NOW)}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    world = World()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(module, "all_runs", world.known)
    monkeypatch.setattr(stack, "open_run", lambda name: name)
    monkeypatch.setattr(stack, "outputs_of", world.outputs)
    monkeypatch.setattr(module, "series_of", world.series)
    return world


def test_a_run_has_its_code_arguments_owner_cost_and_latest_numbers(world):
    run = world.listed()["lr"]
    assert (run["phase"], run["by"], run["step"], run["latest"]) == (
        "Running",
        "ada",
        4,
        {"accuracy": 0.9, "loss": 0.25},
    )
    assert run["arguments"]["source"] == "sha256 2b50b04353dd"
    assert run["gpu_hours"] == 2.0
    lowest, highest = run["cost_cny"]
    assert 0 < lowest <= highest


def test_a_run_that_is_waiting_or_has_no_known_price_costs_nothing_known(world):
    assert overview(world, None, NOW)[0].cost_cny is None
    world.jobs[0]["status"] = {}
    assert world.listed()["lr"]["cost_cny"] is None


def test_a_stack_is_read_once_and_the_log_of_an_ended_run_too(world):
    world.listed()
    world.jobs = [world.job("lr", "lr-1", "Completed")]
    first = world.listed()["lr"]
    world.printed = ""
    assert world.listed()["lr"] == first
    assert first["latest"]["loss"] == 0.25
    assert (world.outputs_read, world.logs_read) == (["lr"], ["lr-1", "lr-1"])


def test_hyperparameters_stay_known_when_the_log_has_none_any_more(world):
    printed = world.printed
    world.printed = printed + '\n{"hyperparameters": {"lr": 0.5}}\n'
    assert world.listed()["lr"]["hyperparameters"] == {"lr": 0.5}
    world.printed = printed
    assert world.listed()["lr"]["hyperparameters"] == {"lr": 0.5}


@pytest.mark.parametrize("own", [True, False], ids=["of-both", "of-the-program-alone"])
def test_the_job_of_a_program_that_is_called_like_a_run_is_not_the_runs(world, own):
    outputs = {**world.outputs("lr"), "job_name": "lr-1"}
    Seen(outputs=outputs, updated=world.stacks["lr"]).keep("lr")
    program = world.job("lr", "lr-9", "Failed", owner_label("digits", "prod"))
    world.jobs = [*(world.jobs if own else []), program]
    run = world.listed()["lr"]
    assert (run["phase"], run["job"]) == ("Running" if own else "gone", "lr-1")
    seen = Seen.last("lr")
    assert seen
    assert seen.run.get("phase") == ("Running" if own else None)


def test_a_log_that_a_node_does_not_send_hides_nothing_and_is_read_at_the_next_look(world):
    world.listed()
    world.jobs, world.hangs = [world.job("lr", "lr-1", "Completed")], True
    world.printed = '{"step": 9, "loss": 0.125}'
    assert (world.listed()["lr"]["phase"], world.listed()["lr"]["step"]) == ("Completed", 4)
    world.hangs = False
    assert world.listed()["lr"]["step"] == 9


def test_a_gone_job_keeps_what_was_seen_of_it(world):
    before = world.listed()["lr"]
    world.jobs = []
    assert world.listed()["lr"] == {**before, "phase": "gone"}


@pytest.mark.parametrize(
    ("server", "namespace", "phase"),
    [
        ("10.0.0.1:6443", "team", "gone"),
        ("10.0.0.2:6443", "team", "elsewhere"),
        ("10.0.0.1:6443", "other", "elsewhere"),
        (None, "other", "gone"),
    ],
    ids=["here", "another-cluster", "another-namespace", "not-recorded"],
)
def test_a_run_of_another_cluster_or_namespace_is_not_called_gone(world, server, namespace, phase):
    world.jobs, world.recorded_server, world.recorded_namespace = [], server, namespace
    run = world.listed()["lr"]
    assert (run["phase"], run["server"], run["namespace"]) == (phase, server, namespace)


def test_a_job_that_is_here_is_of_the_run_whatever_address_the_cluster_had(world):
    world.recorded_server = "127.0.0.1:41234"
    assert world.listed()["lr"]["phase"] == "Running"


def test_the_job_of_somebody_elses_run_of_that_name_is_not_that_of_one_elsewhere(world, monkeypatch):
    recorded = {"job_name": "lr-2", "namespace": "team", "server": "10.0.0.2:6443"}
    monkeypatch.setattr(stack, "outputs_of", lambda _: recorded)
    run = world.listed()["lr"]
    assert (run["phase"], run["job"]) == ("elsewhere", "lr-2")


def test_a_gone_job_that_was_never_seen_has_its_arguments(world):
    world.jobs = []
    run = world.listed()["lr"]
    assert (run["phase"], run["job"], run["by"]) == ("gone", "old-1", "ada")
    assert run["gpu_hours"] is None


def test_an_update_of_the_stack_or_another_job_is_read_again(world):
    world.listed()
    world.stacks["lr"] = "2026-01-01T11:00:00Z"
    world.listed()
    world.jobs = [world.job("lr", "lr-2", "Running")]
    assert world.listed()["lr"]["job"] == "lr-2"
    assert world.outputs_read == ["lr", "lr", "lr"]


def test_a_run_that_this_machine_started_is_not_read_at_all(world):
    Seen(outputs={**world.outputs("lr"), "by": "grace"}).keep("lr")
    world.outputs_read.clear()
    assert world.listed()["lr"]["by"] == "grace"
    assert world.outputs_read == []


def test_a_run_whose_state_cannot_be_read_hides_no_other_and_is_asked_for_again(world):
    world.stacks["broken"] = "2026-01-01T09:00:00Z"
    world.wrong = {"broken"}
    assert world.listed()["broken"]["phase"] == "gone"
    world.wrong = set()
    assert world.listed()["broken"]["by"] == "ada"


def test_damaged_files_and_a_full_disk_stop_nothing(world, tmp_path, monkeypatch):
    world.listed()
    file = tmp_path / "athanor" / "seen" / "lr.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for content in ('{"outputs"', "[]", '{"nothing": 1}', "\0"):
        file.write_text(content)
        assert world.listed()["lr"]["by"] == "ada"
    forget("lr")
    assert not file.exists()
    monkeypatch.setattr(Path, "replace", _no_space)
    assert world.listed()["lr"]["by"] == "ada"
    assert list(file.parent.iterdir()) == []


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_hundred_runs_take_two_questions_and_no_engine(world, monkeypatch):
    """They took a program of the engine for each, and two of kubectl."""
    names = [f"lr-{number}" for number in range(100)]
    outputs = {"job_name": "x", "namespace": "team", "arguments": "{}", "by": "ada"}
    known = {name: KnownRun(updated="2026", outputs={**outputs, "job_name": f"{name}-1"}) for name in names}
    monkeypatch.setattr(module, "all_runs", lambda: known)
    world.jobs = [world.job(name, f"{name}-1", "Completed" if place else "Running") for place, name in enumerate(names)]
    first = world.listed()
    assert (len(first), first["lr-7"]["by"], world.outputs_read) == (100, "ada", [])
    assert [selector.partition(" in (")[0] for selector in world.questions] == [
        "athanor.dev/job,athanor.dev/owner",
        "volcano.sh/job-name",
    ]
    world.questions.clear()
    world.logs_read.clear()
    assert world.listed().keys() == first.keys()
    assert world.logs_read == ["lr-0-1"]
    assert world.questions[1:] == ["volcano.sh/job-name in (lr-0-1)"]


def test_no_runs_are_an_empty_list(world):
    world.stacks = {}
    assert overview(SimpleNamespace(items=world.items), None, NOW) == []
