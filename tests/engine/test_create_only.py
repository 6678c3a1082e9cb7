"""The real engine asks our guard before every update, in previews too, and prints what it says."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.paths import REPOSITORY
from tools.process import CommandError, run
from tools.toolchain import ensure
from tools.toolchain.store import pulumi_home

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = """
import json
import os
import pulumi
import pulumi_kubernetes as kubernetes
from infra.alicloud.create_only import CreateOnly, guard

def unlike(old, new):
    return [port["name"] for port in old["ports"]] != [port["name"] for port in new["ports"]]

field = CreateOnly(
    input="spec", setting="service.ports", limit="names are for life", fix="restore them", forbids=unlike
)
provider = kubernetes.Provider("files", render_yaml_to_directory="rendered")
kubernetes.core.v1.Service(
    "service",
    metadata={"name": "service", "labels": {"label": os.environ.get("LABEL", "first")}},
    spec={"ports": json.loads(os.environ["PORTS"])},
    opts=pulumi.ResourceOptions(
        provider=provider, hooks=guard("service-create-only", [field]), ignore_changes=["spec.ports[*].port"]
    ),
)
"""
BORN = '[{"name": "a", "port": 1}, {"name": "b", "port": 2}]'
RENAMED = '[{"name": "z", "port": 1}, {"name": "b", "port": 2}]'
SHORTER = '[{"name": "a", "port": 1}]'
RENUMBERED = '[{"name": "a", "port": 9}, {"name": "b", "port": 2}]'


@pytest.fixture
def pulumi(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs the engine with these ports, on a stack that was made with other ones."""
    program = ensure(["pulumi", "pulumi-resource-kubernetes"])["pulumi"]
    (tmp_path / "Pulumi.yaml").write_text("name: guarded\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    (tmp_path / "state").mkdir()
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(program.parent), os.environ["PATH"]]),
        "PULUMI_HOME": str(pulumi_home()),
        "PULUMI_BACKEND_URL": (tmp_path / "state").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "of this test",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PYTHONPATH": str(REPOSITORY),
    }

    def engine(*words: str, ports: str = BORN, **variables: str) -> str:
        return run(
            [program, *words, "--non-interactive"], cwd=tmp_path, env={**environment, "PORTS": ports, **variables}
        )

    engine("stack", "init", "test")
    engine("up", "--yes", "--skip-preview")
    return engine


@pytest.mark.parametrize("ports", [RENAMED, SHORTER], ids=["renamed", "shorter"])
def test_a_change_that_would_never_be_made_is_refused(pulumi: Callable[..., str], ports: str) -> None:
    for command in (["preview"], ["up", "--yes", "--skip-preview"]):
        with pytest.raises(CommandError) as refused:
            pulumi(*command, ports=ports)
        message = str(refused.value)
        assert "service.ports = " in message
        assert "names are for life. Fix: restore them" in message
        assert "Traceback" not in message
    pulumi("preview", "--expect-no-changes")


def test_other_changes_go_through(pulumi: Callable[..., str]) -> None:
    pulumi("up", "--yes", "--skip-preview", LABEL="second")
    pulumi("preview", "--expect-no-changes", LABEL="second")


def test_an_ignored_element_of_a_list_is_no_change(pulumi: Callable[..., str]) -> None:
    pulumi("preview", "--expect-no-changes", ports=RENUMBERED)
