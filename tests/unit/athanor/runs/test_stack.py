"""What the engine could not do, with the fix where we know one."""

from __future__ import annotations

import gc
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from pulumi import automation

from athanor.runs import stack as module
from athanor.runs.engine_error import EngineError
from athanor.runs.location import all_runs
from athanor.runs.run_stack import RunStack
from athanor.runs.stack import (
    Declaration,
    DeclaredJob,
    apply,
    create_run,
    declared_job,
    drop_if_nothing_exists,
    open_run,
    remove,
    run_workspace,
)
from infra.errors import RefusalError
from tests.tables import each_row

NO_PLUGIN = (
    "Could not automatically download and install resource plugin 'pulumi-resource-kubernetes' at version v4.34.2,"
    " install the plugin using `pulumi plugin install resource kubernetes v4.34.2`"
)


NOTHING = Declaration(program=lambda: None, variables={})


class RefusingStack:
    workspace = SimpleNamespace(env_vars={})

    def up(self, **_):
        result = automation.CommandResult(stdout="", stderr=NO_PLUGIN, code=255)
        raise automation.errors.create_command_error(result)


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    def install(listed):
        (tmp_path / "pulumi").write_text(f"#!/bin/sh\necho '{json.dumps(listed)}'\n", encoding="utf-8")
        (tmp_path / "pulumi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_a_provider_that_cannot_be_downloaded_names_the_one_that_is_there(plugins):
    plugins([{"name": "alicloud", "version": "3.105.0"}, {"name": "kubernetes", "version": "4.25.0"}])
    with pytest.raises(EngineError, match=r"v4\.34\.2`\n(.|\n)*Fix: .*pip install 'pulumi-kubernetes==4\.25\.0'"):
        apply(RefusingStack(), NOTHING)


def test_without_any_provider_only_the_engine_speaks(plugins):
    plugins([{"name": "alicloud", "version": "3.105.0"}])
    with pytest.raises(EngineError) as caught:
        apply(RefusingStack(), NOTHING)
    assert "Fix:" not in str(caught.value)


def test_the_job_of_a_run_is_found_in_its_state_unless_it_is_to_be_deleted():
    kind, provider = "kubernetes:batch.volcano.sh/v1alpha1:Job", "urn:pulumi:providers:kubernetes::cluster"
    resources = [
        {"type": "pulumi:providers:kubernetes", "urn": provider, "inputs": {"clusterIdentifier": "https://10.0.0.1"}},
        {"type": kind, "urn": "old", "delete": True, "inputs": {"metadata": {"name": "lr-1"}}},
        {
            "type": kind, "urn": "new", "provider": f"{provider}::0123", "inputs": {"metadata": {"name": "lr-2"}},
            "outputs": {"__fieldManager": "pulumi-kubernetes-1"},
        },
    ]  # fmt: skip
    stack = SimpleNamespace(export_stack=lambda: SimpleNamespace(deployment={"resources": resources}))
    assert declared_job(stack, "lr-2") == DeclaredJob(
        manifest={"metadata": {"name": "lr-2"}}, owner="pulumi-kubernetes-1", server="https://10.0.0.1"
    )
    assert declared_job(stack, "lr-1") is None
    empty = SimpleNamespace(export_stack=lambda: SimpleNamespace(deployment=None))
    assert declared_job(empty, "lr-1") is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            'error: unknown stack "o/a/b"',
            r"unknown stack \"o/a/b\"\nFix: name the platform's stack as `pulumi stack ls",
        ),
        ("error: the stack is currently locked by 1 lock(s).", r"\Aerror: the stack is .*\nFix: wait until the other"),
        ("error: get stack secrets manager: incorrect passphrase", r"PULUMI_CONFIG_PASSPHRASE.*as it was.*--forget"),
    ],
)
def test_the_engines_own_words_come_without_its_output_and_with_a_fix(plugins, words, message):
    plugins([])

    def up(**_):
        raise automation.errors.create_command_error(automation.CommandResult(stdout="noise", stderr=words, code=255))

    with pytest.raises(EngineError, match=message) as caught:
        apply(SimpleNamespace(up=up, workspace=RefusingStack.workspace), NOTHING)
    assert "noise" not in str(caught.value)


@each_row("name", ["", "a b", "../up", "organization/athanor/local", "Upper", "-x"])
def test_a_name_that_no_run_can_have_never_reaches_the_engine(name):
    with pytest.raises(RefusalError, match=f"run = {name!r}: is not in your Pulumi backend"):
        open_run(name)


@pytest.mark.parametrize("ask", [all_runs, lambda: open_run("lr"), lambda: create_run("lr", run_workspace())])
def test_a_backend_that_cannot_be_read_is_a_failure_in_the_engines_words(tmp_path, monkeypatch, ask):
    script = """#!/bin/sh
case "$*" in
    version*) echo v3.232.0 ;;
    whoami*) echo '{"user": "me", "url": "https://team.example"}' ;;
    *) echo 'error: the bucket is on fire' >&2; exit 1 ;;
esac
"""
    (tmp_path / "pulumi").write_text(script, encoding="utf-8")
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(EngineError, match=r"^error: the bucket is on fire$"):
        ask()


def test_a_workspace_leaves_no_folder(tmp_path, monkeypatch):
    script = """#!/bin/sh
case "$*" in
    version*) echo v3.232.0 ;;
    *) echo '{"user": "me", "url": "https://team.example"}' ;;
esac
"""
    (tmp_path / "pulumi").write_text(script, encoding="utf-8")
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    workspace = run_workspace()
    assert [Path(workspace.work_dir)] == list(temporary.iterdir())
    del workspace
    gc.collect()
    assert not list(temporary.iterdir())


def removed(destroyed: str, removed: str) -> automation.Stack:
    """A stack with what the engine says to its two questions; nothing: it does what is asked."""

    def saying(words: str):
        def answer(*_: object, **__: object) -> None:
            if words:
                result = automation.CommandResult(stdout="", stderr=words, code=255)
                raise automation.errors.create_command_error(result)

        return answer

    workspace = SimpleNamespace(remove_stack=saying(removed))
    return SimpleNamespace(name="lr", destroy=saying(destroyed), workspace=workspace)


def test_of_two_commands_that_delete_a_run_at_once_the_slower_one_finds_it_deleted():
    remove(removed("", "error: no stack named 'lr' found"))


@pytest.mark.parametrize(
    "answers", [("error: no stack named 'lr' found", ""), ("", "error: could not remove file: in use")]
)
def test_what_the_engine_cannot_remove_is_a_failure_in_its_words(plugins, answers):
    plugins([])
    with pytest.raises(EngineError, match=r"^error: (no stack named|could not remove)"):
        remove(removed(*answers))


def test_ctrl_c_while_a_run_is_created_frees_its_name(monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunStack, "create", interrupt)
    removed: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        create_run("lr", SimpleNamespace(remove_stack=removed.append))
    assert removed == ["lr"]


def _resource(kind: str) -> dict[str, str]:
    return {"urn": f"urn:pulumi:lr::runs::{kind}::a", "type": kind}


_BEFORE = [_resource("pulumi:pulumi:Stack"), _resource("pulumi:providers:kubernetes"), _resource("athanor:workloads:A")]


@each_row(
    ("answers", "deployment", "calls"),
    [
        ([""], {}, [False]),
        (["[409] Conflict: Another update is currently in progress.", ""], {}, [False, False]),
        (["'lr' still has resources"], {"resources": _BEFORE}, [False, True]),
        (["'lr' still has resources"], {"resources": [*_BEFORE, _resource("kubernetes:core/v1:Secret")]}, [False]),
        (["'lr' still has resources"], {"resources": _BEFORE, "pending_operations": [{"type": "creating"}]}, [False]),
        (["the stack is currently locked by 1 lock(s)"] * 99, {}, [False] * 10),
    ],
)
def test_an_interrupted_start_is_dropped_when_its_engine_has_ended_unless_something_exists(answers, deployment, calls):
    waiting, made = iter([*answers, ""]), list[bool]()

    def remove_stack(_: str, *, force: bool = False) -> None:
        made.append(force)
        if said := next(waiting):
            raise automation.errors.create_command_error(automation.CommandResult(stdout="", stderr=said, code=255))

    stack = SimpleNamespace(
        name="lr",
        workspace=SimpleNamespace(remove_stack=remove_stack),
        export_stack=lambda: automation.Deployment(version=3, deployment=deployment),
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module.time, "sleep", lambda _: None)
        drop_if_nothing_exists(stack)
    assert made == calls
