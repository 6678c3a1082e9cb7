"""`athanor run --replace`: the same job that goes on is left alone, and one that does not starts from the beginning."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from athanor.command_line import main, parser
from athanor.run import command as module
from athanor.run.description import describe
from infra.errors import RefusalError
from infra.outputs import PlatformOutputs
from infra.platform import Platform
from tests.recording_engine import record
from tests.unit.workloads.job_cases import PLATFORM

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from athanor.runs.stack import Declaration


class World:
    """A backend with one run at most, and the cluster in which its job is."""

    namespace, context, server = "athanor", "own", "https://10.0.0.1:6443"

    def __init__(self) -> None:
        self.outputs: dict[str, str] | None = None
        self.jobs: dict[str, dict[str, Any]] = {}
        self.looked_first: list[bool] = []

    def within(self, _namespace: str) -> World:
        return self

    def find(self, _kind: str, name: str) -> dict[str, Any] | None:
        return self.jobs.get(name)

    def items(self, *_: str) -> list[dict[str, Any]]:
        return []

    def listed(self, *_: str | None) -> list[dict[str, Any]]:
        return []

    def platform(self) -> object:
        return PlatformOutputs(contract_version=1, **{**vars(PLATFORM), "offers": ""})

    def variables(self) -> AbstractContextManager[dict[str, str]]:
        return nullcontext({})

    def open(self, name: str, workspace: object) -> object:
        if self.outputs is None:
            raise RefusalError("run", name, "is not in your Pulumi backend", "-")
        return workspace

    def apply(self, _stack: object, declaration: Declaration, *, look_first: bool) -> dict[str, str]:
        """Declare the run as the engine would, which believes that what it created is still there."""
        self.looked_first.append(look_first)
        recording = record(declaration.program, preview=False)
        before, self.outputs = self.outputs or {}, recording.exports
        if self.outputs["job_name"] != before.get("job_name") or look_first:
            self.jobs = {self.outputs["job_name"]: {"status": {"state": {"phase": "Running"}}}}
        return self.outputs

    def ends(self, phase: str) -> None:
        for job in self.jobs.values():
            job["status"]["state"]["phase"] = phase


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    world = World()
    monkeypatch.setattr(module.Cluster, "of", lambda _: world)
    monkeypatch.setattr(Platform, "from_outputs", lambda _, provider: Platform(provider=provider, **vars(PLATFORM)))
    monkeypatch.setattr(module, "open_run", world.open)
    monkeypatch.setattr(module, "create_run", lambda _name, workspace: workspace)
    monkeypatch.setattr(module, "run_workspace", lambda **_: "workspace")
    monkeypatch.setattr(module, "outputs_of", lambda _: world.outputs)
    monkeypatch.setattr(module, "apply", world.apply)
    monkeypatch.setattr(module, "remove", lambda _: None)
    monkeypatch.setattr(module, "estimate", lambda *_: [])
    monkeypatch.setattr(module, "_line", lambda _: None)
    return world


def run(*options: str, program: str = "./train") -> int:
    return main(["run", "--kind", "batch", "--no-code", "--name", "lr", *options, "--", program])


def job_name(world: World) -> str:
    [name] = world.jobs
    return name


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting"])
def test_the_same_job_that_goes_on_is_left_alone_and_the_command_says_so(world, phase, capsys):
    assert run() == 0
    first = job_name(world)
    assert f"started: run lr, job {first} in namespace athanor" in capsys.readouterr().err
    world.ends(phase)
    assert run("--replace") == 0
    assert job_name(world) == first
    said = capsys.readouterr().err
    assert f"unchanged: run lr, job {first} in namespace athanor, is {phase} already; nothing was started" in said
    assert "started: " not in said.replace("unchanged: ", "")


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated", "Aborted", "Aborting"])
def test_a_job_that_does_not_go_on_starts_again_from_the_beginning(world, phase, capsys):
    run()
    first = job_name(world)
    world.ends(phase)
    capsys.readouterr()
    assert run("--replace", "--json") == 0
    second = job_name(world)
    assert second != first  # and with that the folder of its files
    assert json.loads(capsys.readouterr().out) == {
        "run": "lr", "job": second, "namespace": "athanor", "started": True,
    }  # fmt: skip
    run("--replace", "--json")
    assert json.loads(capsys.readouterr().out)["started"] is False
    assert world.looked_first == [False, False, False]


def test_a_job_that_was_deleted_starts_again_and_the_engine_looks_for_it(world, capsys):
    run()
    first = job_name(world)
    world.jobs = {}
    assert run("--replace") == 0
    assert job_name(world) != first
    assert world.looked_first == [False, True]
    assert "unchanged" not in capsys.readouterr().err


def test_a_pod_to_develop_in_that_was_deleted_keeps_its_folder(world):
    run()
    first = job_name(world)
    world.jobs = {}
    words = ["run", "--kind", "batch", "--no-code", "--name", "lr", "--replace", "--", "./train"]
    arguments = parser().parse_args(words)
    started = module.start(arguments, describe(arguments), world, keep_folder=True)
    assert started is not None
    assert (started.job_name, started.phase, job_name(world)) == (first, None, first)


def test_other_content_replaces_what_goes_on(world, capsys):
    run()
    first = job_name(world)
    assert run("--replace", program="./other") == 0
    assert job_name(world) != first
    assert "started: run lr" in capsys.readouterr().err


def test_a_run_whose_start_was_cut_off_is_started_as_at_first(world, capsys):
    run()
    first = job_name(world)
    world.outputs, world.jobs = {}, {}
    assert run("--replace") == 0
    assert job_name(world) == first
    assert "started: run lr" in capsys.readouterr().err


def test_a_run_of_another_cluster_is_refused_and_stays(world, capsys):
    run()
    assert world.outputs is not None
    assert world.outputs["server"] == "10.0.0.1:6443"
    world.jobs, world.server = {}, "https://10.0.0.2:6443"
    assert run("--replace") == 1
    assert "run = 'lr': was started in the cluster at 10.0.0.1:6443" in capsys.readouterr().err
    assert world.looked_first == [False]


@pytest.mark.usefixtures("world")
def test_a_run_that_does_not_exist_is_not_replaced(capsys):
    assert run("--replace") == 1
    assert "is not in your Pulumi backend" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["estimate", "apply", "preview"])
def test_ctrl_c_drops_a_new_run_of_which_nothing_exists_and_none_that_was_there(world, monkeypatch, where):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    dropped: list[object] = []
    monkeypatch.setattr(module, where, interrupt)
    monkeypatch.setattr(module, "drop_if_nothing_exists", dropped.append)
    options = ["--preview"] * (where == "preview")
    assert run(*options) == 130
    assert dropped == ["workspace"]
    world.outputs = {}
    assert run("--replace", *options) == 130
    assert dropped == ["workspace"]
