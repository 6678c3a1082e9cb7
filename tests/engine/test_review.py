"""`athanor review` of what the real engine writes, in both of its formats."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from athanor.review import verdict
from athanor.review.prices import prices_for
from athanor.review.reading import read_preview
from tests.fixtures.engine_project import STACK, EngineProject
from tools.paths import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import pulumi
import pulumi_kubernetes as kubernetes
from infra.manifests import resource

provider = kubernetes.Provider("files", render_yaml_to_directory="rendered")

class Team(pulumi.ComponentResource):
    def __init__(self):
        super().__init__("team:index:Team", "ours")
        own = pulumi.ResourceOptions(parent=self, provider=provider)
        for name, version, kind, content in {objects}:
            resource(name, {{"apiVersion": version, "kind": kind, "metadata": {{"name": name}}, **content}}, own)

Team()
{end}
"""
SECRET = "cGFzc3dvcmQtb2YtdGhlLXRlYW0="
JOB = ("train", "batch.volcano.sh/v1alpha1", "Job", {"spec": {"minAvailable": 2}})
CLAIM = ("data", "v1", "PersistentVolumeClaim", {"spec": {"accessModes": ["ReadWriteMany"]}})
BEFORE = [
    JOB,
    CLAIM,
    ("limits", "v1", "ConfigMap", {"data": {"limits.json": '{"cpu": 1, "gpus": [1, 2]}'}}),
    ("private", "v1", "Secret", {"data": {"key": SECRET}}),
]
AFTER = [
    ("limits", "v1", "ConfigMap", {"data": {"limits.json": '{"gpus": [1, 2], "cpu": 2}'}}),
    ("private", "v1", "Secret", {"data": {"key": "b3RoZXItcGFzc3dvcmQ="}}),
    ("more", "v1", "ConfigMap", {"data": {"a": "b"}}),
]


def program(objects: list[object], end: str = "") -> str:
    return PROGRAM.format(objects=objects, end=end)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> EngineProject:
    """A project whose stack holds BEFORE and whose program declares AFTER."""
    project = EngineProject.create(tmp_path_factory.mktemp("review") / "project", program([*BEFORE]), "kubernetes")
    project.up()
    project.declare(program([*AFTER]))
    return project


def review(project: EngineProject, *words: str) -> subprocess.CompletedProcess[str]:
    variables = {**project.variables, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "athanor", "review", *words]
    return subprocess.run(command, cwd=project.folder, env=variables, capture_output=True, text=True, check=False)


def test_a_real_preview_becomes_the_same_report_in_both_formats(project: EngineProject, tmp_path: Path) -> None:
    digest = tmp_path / "digest.json"
    digest.write_text(project.preview("--json"), encoding="utf-8")

    of_events, of_digest = review(project, "--stack", STACK), review(project, str(digest))

    assert of_events.returncode == of_digest.returncode == verdict.DESTRUCTIVE, of_events.stderr
    assert of_events.stdout == of_digest.stdout
    text = of_events.stdout
    assert "- **volume `data` deleted**" in text
    assert "- **job `train` deleted**" in text
    assert '! data["limits.json"]:cpu: 1 → 2\n' in text
    assert "gpus" not in text
    assert "! data.key: changes; the values are secret or not in the preview\n" in text
    assert "<summary><code>Team</code> <code>ours</code>: 2 deleted, 2 replaced, 1 created" in text
    assert SECRET not in text
    assert SECRET not in digest.read_text(encoding="utf-8")


def test_a_preview_repeats_the_prices_of_its_stack(project: EngineProject) -> None:
    """With a date as people write it in YAML, which reaches programs in a form of its own."""
    settings = project.folder / f"Pulumi.{STACK}.yaml"
    before = settings.read_text(encoding="utf-8")
    prices = "config:\n  athanor:prices: {as_of: 2026-10-02, per_hour: {ack.pro.small: 1.5}}\n"
    settings.write_text(before + prices, encoding="utf-8")
    streaming = project.with_variables(PULUMI_ENABLE_STREAMING_JSON_PREVIEW="true")
    previews = [each.preview("--json") for each in (project, streaming)]
    settings.write_text(before, encoding="utf-8")

    tables = [prices_for(read_preview(text).config) for text in previews]

    assert [(str(each.as_of), each.of("ack.pro.small")) for each in tables] == [("2026-10-02", 1.5)] * 2


def test_a_program_that_fails_is_a_failed_preview(project: EngineProject) -> None:
    project.declare(program([*AFTER], "raise pulumi.RunError('no such team')"))
    done = review(project, "--stack", STACK, "--fail-on", "never")
    project.declare(program([*AFTER]))

    assert done.returncode == verdict.FAILED
    assert "no such team" in done.stdout
    assert "## `test`: the preview failed" in done.stdout


def test_a_stack_that_does_not_exist_is_a_failed_preview(project: EngineProject) -> None:
    done = review(project, "--stack", "nobody", "--fail-on", "never")
    assert done.returncode == verdict.FAILED
    assert "no stack named 'nobody'" in done.stdout
    assert read_preview("").failed
