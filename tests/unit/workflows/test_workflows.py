"""The workflows of GitHub Actions: what actionlint says of them, and the rules that keep credentials from strangers."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from athanor.command_line import parser
from tests.tables import each_row
from tools.paths import REPOSITORY
from tools.stacks.engine import stack_config
from tools.toolchain.go_command import Go
from tools.toolchain.go_sdk import find_go
from tools.toolchain.versions import go_version

MODULE = Path(__file__).parent / "actionlint"
FOLDER = REPOSITORY / ".github"
WORKFLOWS = {file.stem: file for file in sorted((FOLDER / "workflows").glob("*.yml"))}
STACKS = [
    name
    for name in ("dev", "local", "prod", "staging")
    if "alicloud" in stack_config(name) and (REPOSITORY / f"Pulumi.{name}.yaml").is_file()
]
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
FORK = "github.event.pull_request.head.repo.full_name"


def read(file: Path) -> dict[str, Any]:
    """Return a workflow; YAML 1.1 reads the key `on` as true."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in content.items()}


def jobs(name: str) -> dict[str, dict[str, Any]]:
    return read(WORKFLOWS[name])["jobs"]


def scripts(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job.get("steps", []))


ALL_JOBS = [pytest.param(job, id=f"{name}-{key}") for name in WORKFLOWS for key, job in jobs(name).items()]


@pytest.fixture(scope="module")
def actionlint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("actionlint")
    go = Go(program=find_go(go_version(MODULE / "go.mod"), None), log=folder / "go.log")
    go.output(["build", "-o", str(folder / "actionlint"), "github.com/rhysd/actionlint/cmd/actionlint"], MODULE)
    return folder / "actionlint"


def lint(actionlint: Path, *files: Path) -> str:
    # -shellcheck=: whether a machine has it must not decide.
    command = [actionlint, "-no-color", "-shellcheck=", "-pyflakes=", *files]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False).stdout


@pytest.mark.built
def test_actionlint_has_nothing_to_say(actionlint: Path) -> None:
    assert lint(actionlint, *WORKFLOWS.values()) == ""


@pytest.mark.built
def test_actionlint_would_notice_a_name_that_does_not_exist(actionlint: Path, tmp_path: Path) -> None:
    broken = tmp_path / "preview.yml"
    text = WORKFLOWS["preview"].read_text(encoding="utf-8")
    broken.write_text(text.replace("needs.preview.result", "needs.review.result"), encoding="utf-8")
    assert 'property "review" is not defined' in lint(actionlint, broken)


def test_every_action_is_pinned_by_its_commit() -> None:
    used = [
        line.partition("uses: ")[2]
        for file in [*WORKFLOWS.values(), *FOLDER.glob("actions/*/action.yml")]
        for line in file.read_text(encoding="utf-8").splitlines()
        if "uses: " in line
    ]
    assert len(used) > 10
    assert [use for use in used if not use.startswith("./.github/") and not PINNED.fullmatch(use)] == []


def test_no_workflow_runs_with_the_rights_of_the_base_branch_on_a_pull_request() -> None:
    assert {name: set(read(file)["on"]) for name, file in WORKFLOWS.items()} == {
        "deploy": {"push", "workflow_dispatch"},
        "deploy-stack": {"workflow_call"},
        "drift": {"schedule", "workflow_dispatch"},
        "preview": {"pull_request"},
        "test": {"pull_request", "push"},
    }
    assert all(read(WORKFLOWS[name])["on"]["push"] == {"branches": ["main"]} for name in ("deploy", "test"))


def test_a_pull_request_updates_nothing() -> None:
    for job in jobs("preview").values():
        assert not re.search(r"\b(apply|pulumi|up|make up)\b", scripts(job))


def test_a_fork_gets_no_credentials() -> None:
    previews = jobs("preview")
    assert f"{FORK} == github.repository" in previews["preview"]["if"]
    assert previews["comment"]["needs"] == "preview"
    assert f"{FORK} != github.repository" in previews["without-credentials"]["if"]
    assert previews["without-credentials"]["permissions"] == {"contents": "read"}
    assert not re.search(r"secrets\.|environment|role:", str(previews["without-credentials"]))


def test_what_may_write_a_comment_runs_the_code_of_the_base_branch() -> None:
    writing = {
        key: job for key, job in jobs("preview").items() if "write" in str(job["permissions"].get("pull-requests"))
    }
    assert list(writing) == ["comment"]
    checkout = writing["comment"]["steps"][0]
    assert checkout["with"]["ref"] == "${{ github.event.pull_request.base.sha }}"
    assert "id-token" not in writing["comment"]["permissions"]


@each_row("name", WORKFLOWS)
def test_rights_are_given_to_single_jobs(name: str) -> None:
    assert read(WORKFLOWS[name])["permissions"] == {}
    assert all("permissions" in job for job in jobs(name).values() if "needs" not in job or "steps" in job)


@each_row("job", ALL_JOBS)
def test_a_token_for_the_cloud_belongs_to_an_environment(job: dict[str, Any]) -> None:
    if "steps" in job and job["permissions"].get("id-token"):
        assert job["environment"]
        assert [step for step in job["steps"] if "oidc-provider" in step.get("with", {})]


@each_row("job", ALL_JOBS)
def test_no_script_is_written_by_an_expression(job: dict[str, Any]) -> None:
    assert "${{" not in scripts(job)


@each_row("job", ALL_JOBS)
def test_no_checkout_leaves_a_token_behind(job: dict[str, Any]) -> None:
    checkouts = [step for step in job.get("steps", []) if "actions/checkout@" in step.get("uses", "")]
    assert [step for step in checkouts if step["with"]["persist-credentials"] is not False] == []


@each_row("job", ALL_JOBS)
def test_every_command_is_one_that_there_is(job: dict[str, Any]) -> None:
    text = scripts(job).replace('"${stacks[@]/#/--stack=}"', "--stack=dev").replace('"$PULL_REQUEST"', "7")
    for command in re.findall(r"python3? -m athanor ([^;\n]+)", text.replace("\n--", " --")):
        assert parser().parse_args(shlex.split(command)).command


def test_every_stack_of_the_cloud_is_in_every_workflow() -> None:
    assert STACKS == ["dev", "prod", "staging"]
    assert sorted(read(WORKFLOWS["preview"])["env"]["STACKS"].split()) == STACKS
    assert sorted(jobs("drift")["drift"]["strategy"]["matrix"]["stack"]) == STACKS
    assert {key: job["with"]["stack"] for key, job in jobs("deploy").items()} == {name: name for name in STACKS}


def test_an_environment_is_updated_by_one_run_at_a_time() -> None:
    for name, job in jobs("deploy").items():
        assert job["concurrency"] == {"group": f"update-{name}", "cancel-in-progress": False}


def test_what_is_applied_is_the_plan_of_the_same_run_after_approval() -> None:
    plan, apply = jobs("deploy-stack")["plan"], jobs("deploy-stack")["apply"]
    assert apply["needs"] == "plan"
    assert apply["environment"] == "${{ inputs.stack }}"
    assert plan["environment"] == "${{ inputs.stack }}-plan"
    [kept] = [step["with"]["name"] for step in plan["steps"] if "upload-artifact" in step.get("uses", "")]
    [fetched] = [step["with"] for step in apply["steps"] if "download-artifact" in step.get("uses", "")]
    assert fetched == {"name": kept, "path": "plans"}


def test_a_pull_request_is_linted_and_tested_on_a_machine_that_nothing_else_uses() -> None:
    quick = jobs("test")["quick"]
    assert quick["if"] == "github.event_name == 'pull_request'"
    assert scripts(quick).strip() == 'make "$TARGET"'
    assert quick["steps"][-1]["env"] == {"TARGET": "${{ matrix.target }}"}
    targets = quick["strategy"]["matrix"]["target"]
    assert targets == ["check", "test-fast"]
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}: ", makefile, re.MULTILINE) for target in targets)
    assert quick["runs-on"] == "ubuntu-24.04"
    assert quick["permissions"] == {"contents": "read"}
    assert not re.search(r"secrets\.|environment", str(quick))


def test_what_is_merged_runs_every_test_with_the_history() -> None:
    whole = jobs("test")["whole"]
    assert whole["if"] == "github.event_name == 'push'"
    assert scripts(whole).count(".ci/run") == 1
    assert (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").endswith("\nexec make test\n")
    assert whole["steps"][0]["with"]["fetch-depth"] == 0


@each_row("job", ["quick", "whole"])
def test_the_kept_packages_are_those_of_the_pins(job: str) -> None:
    """By all that `tools/bootstrap.sh` builds the environments from, and the version of Python, which it names."""
    [key] = [
        step["with"]["key"] for step in jobs("test")[job]["steps"] if "venv" in step.get("with", {}).get("path", "")
    ]
    script = (REPOSITORY / "tools" / "bootstrap.sh").read_text(encoding="utf-8")
    pins = {
        *re.findall(r"requirements=(\S+) link=", script),
        *re.findall(r"^(?:installer|build)=(\S+)", script, re.MULTILINE),
    }
    assert len(pins) == 5
    assert set(re.findall(r"'([^']+)'", key)) == {*pins, "tools/bootstrap.sh"}
    assert "steps.python.outputs.python-version" in key
