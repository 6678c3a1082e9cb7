"""The stack of a run, by the real engine: how often it is started, and what is known of the outputs."""

from __future__ import annotations

import os
import tempfile

import pulumi
import pytest
from pulumi import automation

from athanor.runs.location import all_runs
from athanor.runs.run_stack import RunStack
from athanor.runs.stack import (
    Declaration,
    apply,
    create_run,
    drop_if_nothing_exists,
    open_run,
    outputs_of,
    remove,
    run_workspace,
)
from tools.stacks.engine import engine_path
from tools.toolchain import ensure
from tools.toolchain.store import pulumi_home


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Put a pulumi on PATH that notes its words; return a function that gives what was noted since."""
    engine, noted = ensure(["pulumi"])["pulumi"], tmp_path / "words"
    wrapper = tmp_path / "bin" / "pulumi"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$1 $2" >> {noted}\nexec {engine} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    (tmp_path / "backend").mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(wrapper.parent), *engine_path(engine), os.environ["PATH"]]))
    monkeypatch.setenv("PULUMI_HOME", str(pulumi_home()))
    monkeypatch.setenv("PULUMI_SKIP_UPDATE_CHECK", "true")
    monkeypatch.setenv("PULUMI_BACKEND_URL", (tmp_path / "backend").as_uri())
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "test")

    def since():
        words = noted.read_text(encoding="utf-8").splitlines()
        noted.write_text("", encoding="utf-8")
        return words

    return since


def workspace(tmp_path, job_name):
    settings = automation.ProjectSettings(name="runs", runtime="python", main=str(tmp_path))
    folder = tempfile.mkdtemp(dir=tmp_path)  # one that is given none leaves one among the machine's temporary files
    return automation.LocalWorkspace(
        folder, project_settings=settings, program=lambda: pulumi.export("job_name", job_name)
    )


def test_the_engine_is_not_asked_for_what_it_said(tmp_path, started):
    stack = RunStack.create("lr", workspace(tmp_path, "lr-1"))
    started()
    assert stack.up(suppress_outputs=True, on_event=stack.note).outputs["job_name"].value == "lr-1"
    assert stack.outputs()["job_name"].value == "lr-1"
    assert started() == ["up --yes"]
    unchanged = stack.up(suppress_outputs=True, on_event=stack.note)
    assert unchanged.outputs["job_name"].value == "lr-1"
    assert started() == ["up --yes"]


def test_of_an_update_by_another_process_it_is_asked(tmp_path, started):
    RunStack.create("lr", workspace(tmp_path, "lr-1")).up(suppress_outputs=True)
    started()
    assert RunStack.select("lr", workspace(tmp_path, "lr-2")).outputs()["job_name"].value == "lr-1"
    assert "stack output" in started()


@pytest.mark.usefixtures("started")
def test_a_run_is_deleted_under_another_passphrase_of_the_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "one")
    declared = Declaration(program=lambda: pulumi.export("job_name", pulumi.Output.secret("lr-1")), variables={})
    apply(create_run("own", run_workspace()), declared)
    apply(create_run("shells", run_workspace(reads_stacks=True)), declared)  # as all runs were of earlier releases
    remove(open_run("shells"))
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "another")
    stack = open_run("own")
    assert outputs_of(stack)["job_name"] == "lr-1"
    remove(stack)
    assert all_runs() == {}


@pytest.mark.usefixtures("started")
def test_a_start_that_was_interrupted_before_anything_was_created_frees_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    stack = create_run("lr", run_workspace())
    apply(stack, Declaration(program=lambda: None, variables={}))  # the root of the stack is in its state
    drop_if_nothing_exists(stack)
    assert all_runs() == {}
