"""The policy pack in the real engine: what is written by hand is refused, what is unknown is said to be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from athanor.review import verdict
from tests.fixtures.engine_project import STACK, EngineProject
from tests.fixtures.recorded_stack import REPOSITORY
from tools.process import CommandError

PACK = REPOSITORY / "policies"
PROGRAM = """
import pulumi
import pulumi_kubernetes as kubernetes

rendered = kubernetes.Provider("rendered", render_yaml_to_directory="rendered")
opts = pulumi.ResourceOptions(provider=rendered)
secured = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}


def deployment(name, image, **pod):
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    container = {"name": "main", "image": image, "resources": resources, "security_context": secured}
    kubernetes.apps.v1.Deployment(
        name,
        metadata={"name": name, "namespace": "team"},
        spec={
            "selector": {"match_labels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], "automount_service_account_token": False, **pod},
            },
        },
        opts=opts,
    )
"""
GOOD = 'deployment("good", "registry.example/app:1.2")\n'
BAD = 'deployment("bad", "registry.example/app:latest", host_network=True)\n'
NOT_KNOWN = 'deployment("later", pulumi.runtime.rpc.UNKNOWN)\n'
"""As the SDK sends an output of a resource that does not exist yet."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> EngineProject:
    """Another team's project, which names the pack as docs/policies.md says."""
    subprocess.run([REPOSITORY / "tools" / "bootstrap.sh", "policies"], check=True)
    project = EngineProject.create(tmp_path_factory.mktemp("policies") / "project", PROGRAM, "kubernetes")
    file = project.folder / "Pulumi.yaml"
    plugin = {"analyzers": [{"name": "policy-athanor", "path": os.path.relpath(PACK, project.folder)}]}
    file.write_text(f"{file.read_text(encoding='utf-8')}plugins: {json.dumps(plugin)}\n", encoding="utf-8")
    return project


def preview(project: EngineProject, program: str, **config: object) -> tuple[bool, str]:
    """Return whether the engine allows a program, and what it printed."""
    project.declare(PROGRAM + program)
    file = project.folder / "policies.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    try:
        return True, project.preview("--policy-pack", str(PACK), "--policy-pack-config", str(file))
    except CommandError as error:
        return False, error.output


def violated(printed: str) -> set[str]:
    return set(re.findall(r"\[(?:mandatory|advisory)\](?: \[severity: \w+\])?  ([a-z-]+) ", printed))


def test_what_is_written_by_hand_is_refused(project: EngineProject) -> None:
    allowed, printed = preview(project, GOOD + BAD)

    assert not allowed
    assert violated(printed) == {"images-pinned", "no-host-namespaces"}
    assert "container main: image = 'registry.example/app:latest': a tag that moves" in printed
    assert "Fix: name a version or a digest" in printed
    assert "Deployment: bad" in printed
    assert "Deployment: good" not in printed


def test_what_is_advised_disabled_or_exempt_is_allowed(project: EngineProject) -> None:
    exempt = {"object": "Deployment team/bad", "reason": "a test of the engine"}
    allowed, printed = preview(project, BAD, **{"all": "advisory", "images-pinned": "disabled"})
    assert allowed
    assert violated(printed) == {"no-host-namespaces"}

    allowed, printed = preview(
        project, BAD, **{"images-pinned": "disabled", "no-host-namespaces": {"exempt": [exempt]}}
    )
    assert allowed
    assert violated(printed) == set()


def test_what_is_unknown_is_neither_a_violation_nor_a_pass(project: EngineProject) -> None:
    allowed, printed = preview(project, NOT_KNOWN)

    assert allowed
    assert "[mandatory]" not in printed
    assert "can't run policy 'images-pinned'" in printed
    assert "spec.template.spec.containers.0.image can't be known during preview" in printed


def test_a_wrong_configuration_is_refused(project: EngineProject) -> None:
    allowed, printed = preview(project, GOOD, **{"no-host-namespaces": {"exempt": [{"object": "Deployment team/bad"}]}})

    assert not allowed
    assert "reason" in printed


def test_a_review_has_what_the_pack_found_and_keeps_no_plan_of_it(project: EngineProject) -> None:
    project.declare(PROGRAM + BAD)
    command = [sys.executable, "-m", "athanor", "review", "--stack", STACK, "--save-plans", "plans"]
    done = subprocess.run(
        [*command, "--policy-pack", str(PACK), "--fail-on", "never"],
        cwd=project.folder, env={**os.environ, **project.variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == verdict.FAILED, done.stderr
    assert "images-pinned" in done.stdout
    assert "no-host-namespaces" in done.stdout
    assert list((project.folder / "plans").iterdir()) == []
