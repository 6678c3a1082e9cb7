"""A pipeline's commands with the real engine: the reviewed plan is applied or nothing, and drift is found.

The provider is the real one, against the API double. Whatever only reads has the rights of docs/ram-policy-preview.json
and no others. The tests lead one stack through its life, in their order.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from athanor.review import verdict
from tests.api_double.double import ApiDouble
from tests.fixtures.cloud_identities import previewer_credentials
from tests.fixtures.engine_project import STACK, EngineProject
from tests.fixtures.recorded_stack import REPOSITORY
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """
import json
import pulumi
import pulumi_alicloud as alicloud

wanted = json.load(open("wanted.json"))
provider = alicloud.Provider("cloud", region="cn-hangzhou", account_type="Domestic")
opts = pulumi.ResourceOptions(provider=provider)
alicloud.ecs.EcsDeploymentSet("near", deployment_set_name="athanor-near", description=wanted["near"], opts=opts)
alicloud.ecs.EcsDeploymentSet(
    "far", deployment_set_name="athanor-far", description=pulumi.Output.secret(wanted["far"]), opts=opts
)
"""
SECRET = "known to nobody"


@dataclass
class Pipeline:
    """A stack, the account that it is in, and two identities: one that deploys, and one that previews."""

    deployer: EngineProject
    previewer: EngineProject
    double: ApiDouble

    @property
    def plan(self) -> Path:
        return self.deployer.folder / "plans" / f"{STACK}.plan.json"

    def want(self, near: str = "as declared") -> None:
        file = self.deployer.folder / "wanted.json"
        file.write_text(json.dumps({"near": near, "far": SECRET}), encoding="utf-8")

    def review(self) -> str:
        """Make a plan and return its report."""
        done = athanor(self.previewer, "review", "--stack", STACK, "--save-plans", "plans")
        assert done.returncode == verdict.PASSED, done.stderr + done.stdout
        return done.stdout

    def apply(self, *words: str) -> subprocess.CompletedProcess[str]:
        return athanor(self.deployer, "apply", "--stack", STACK, "--plan", str(self.plan), *words)

    def drift(self) -> tuple[int, str]:
        report = self.deployer.folder / "drift.md"
        done = athanor(self.previewer, "drift", "--stack", STACK, "--output", str(report))
        return done.returncode, report.read_text(encoding="utf-8")

    def sets(self) -> dict[str, dict[str, Any]]:
        with self.double.account.lock:
            listed = self.double.account.all("deployment_set").values()
            return {each["DeploymentSetName"].removeprefix("athanor-"): each for each in listed}

    def descriptions(self) -> dict[str, str]:
        return {name: each["DeploymentSetDescription"] for name, each in self.sets().items()}


def athanor(project: EngineProject, *words: str) -> subprocess.CompletedProcess[str]:
    variables = {**project.variables, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "athanor", *words]
    return subprocess.run(command, cwd=project.folder, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    with ApiDouble(tmp_path_factory.mktemp("double"), settling_reads=0) as double:
        project = EngineProject.create(tmp_path_factory.mktemp("project"), PROGRAM, "alicloud", double.environment())
        previewer = project.with_variables(**previewer_credentials(double))
        yield Pipeline(project, previewer, double)
        assert double.mistakes() == []
        assert double.unknown_operations() == []


def test_the_reviewed_plan_is_what_is_applied(pipeline: Pipeline) -> None:
    pipeline.want()
    report = pipeline.review()
    assert "3 created" in report  # with the provider
    assert pipeline.sets() == {}

    done = pipeline.apply()

    assert done.returncode == verdict.PASSED, done.stderr + done.stdout
    assert pipeline.descriptions() == {"near": "as declared", "far": SECRET}
    assert SECRET not in pipeline.plan.read_text(encoding="utf-8")
    assert SECRET not in report + done.stdout + done.stderr


def test_the_identity_of_previews_changes_nothing(pipeline: Pipeline) -> None:
    before = pipeline.descriptions()
    pipeline.want("by the wrong identity")

    with pytest.raises(CommandError, match=r"Forbidden\.RAM"):
        pipeline.previewer.up()

    assert pipeline.descriptions() == before


def test_a_plan_for_a_state_that_has_changed_since_changes_nothing(pipeline: Pipeline) -> None:
    pipeline.want("as reviewed")
    pipeline.review()
    pipeline.want("by somebody else, after the review")
    pipeline.deployer.up()
    pipeline.want("as reviewed")

    done = pipeline.apply()

    assert done.returncode == verdict.UNREADABLE
    assert "the stack was updated after the plan. Fix: run the pipeline again" in done.stderr
    assert pipeline.descriptions()["near"] == "by somebody else, after the review"


def test_a_program_that_asks_for_more_than_the_plan_changes_nothing(pipeline: Pipeline) -> None:
    pipeline.want("as reviewed")
    pipeline.review()
    pipeline.want("something else")
    before = pipeline.descriptions()

    done = pipeline.apply()

    assert done.returncode == verdict.FAILED
    assert "violates plan" in done.stdout + done.stderr
    assert pipeline.descriptions() == before


def test_another_stacks_plan_is_refused(pipeline: Pipeline) -> None:
    done = athanor(pipeline.deployer, "apply", "--stack", "prod", "--plan", str(pipeline.plan))
    assert done.returncode == verdict.UNREADABLE
    assert "is a plan of another stack than prod" in done.stderr


def test_a_preview_that_fails_leaves_no_plan(pipeline: Pipeline) -> None:
    pipeline.deployer.declare(f"{PROGRAM}\nraise pulumi.RunError('no such team')\n")
    done = athanor(pipeline.previewer, "review", "--stack", STACK, "--save-plans", "plans")
    pipeline.deployer.declare(PROGRAM)
    assert done.returncode == verdict.FAILED
    assert not pipeline.plan.exists()


def test_without_drift_there_is_nothing_to_report(pipeline: Pipeline) -> None:
    status, report = pipeline.drift()
    assert status == verdict.PASSED
    assert report.startswith(f"<!-- athanor drift {STACK} -->\n# Drift: what a refresh would change\n")
    assert "nothing changes" in report


def test_what_was_changed_behind_the_engines_back_is_drift(pipeline: Pipeline) -> None:
    with pipeline.double.account.lock:
        pipeline.sets()["near"]["DeploymentSetDescription"] = "by hand"
    status, report = pipeline.drift()
    assert status == verdict.CHANGES
    assert 'description: "by somebody else, after the review" → "by hand"' in report


def test_what_was_deleted_behind_the_engines_back_is_drift_and_a_failed_check_is_none(pipeline: Pipeline) -> None:
    with pipeline.double.account.lock:
        far = next(
            key for key, each in pipeline.double.account.all("deployment_set").items() if each is pipeline.sets()["far"]
        )
        pipeline.double.account.remove("deployment_set", far)
    status, report = pipeline.drift()
    assert status == verdict.CHANGES
    assert "1 deleted" in report

    stranger = pipeline.previewer.with_variables(PULUMI_CONFIG_PASSPHRASE="of somebody else")
    pipeline = replace(pipeline, previewer=stranger)
    status, report = pipeline.drift()
    assert status == verdict.FAILED
    assert SECRET not in report
