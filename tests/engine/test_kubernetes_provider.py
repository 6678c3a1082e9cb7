"""The provider that we compile with a part of its SDK registers what is read from YAML as the whole one does."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.process import run
from tools.toolchain import ensure
from tools.toolchain.store import pulumi_home

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = """
import pulumi
import pulumi_kubernetes as kubernetes

provider = kubernetes.Provider("files", render_yaml_to_directory="rendered")
options = pulumi.ResourceOptions(provider=provider)
kubernetes.yaml.v2.ConfigGroup("group", files=["objects.yaml"], opts=options)
"""
OBJECTS = """
apiVersion: v1
kind: Namespace
metadata: {name: home}
---
apiVersion: v1
kind: Secret
metadata: {name: private, namespace: home}
stringData: {key: kept private}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: program, namespace: home}
spec:
  selector: {matchLabels: {app: program}}
  template: {metadata: {labels: {app: program}}, spec: {containers: [{name: program, image: program}]}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: custom, namespace: home}
"""


@pytest.fixture
def pulumi(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs the engine on a project of its own, which needs no cluster."""
    program = ensure(["pulumi", "pulumi-resource-kubernetes"])["pulumi"]
    (tmp_path / "Pulumi.yaml").write_text("name: yaml\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    (tmp_path / "objects.yaml").write_text(OBJECTS)
    (tmp_path / "state").mkdir()
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(program.parent), os.environ["PATH"]]),
        "PULUMI_HOME": str(pulumi_home()),
        "PULUMI_BACKEND_URL": (tmp_path / "state").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "of this test",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    return lambda *words: run([program, *words, "--non-interactive"], cwd=tmp_path, env=environment)


def test_objects_from_yaml_are_registered_by_their_own_types(pulumi: Callable[..., str], tmp_path: Path) -> None:
    pulumi("stack", "init", "test")
    pulumi("up", "--yes", "--skip-preview")

    state = json.loads(pulumi("stack", "export"))["deployment"]["resources"]
    children = {one["type"]: one for one in state if one.get("parent", "").endswith("ConfigGroup::group")}
    assert set(children) == {
        "kubernetes:core/v1:Namespace",
        "kubernetes:core/v1:Secret",
        "kubernetes:apps/v1:Deployment",
        "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",
        "kubernetes:example.com/v1:Thing",
    }
    secret = json.dumps(children["kubernetes:core/v1:Secret"]["inputs"])
    assert "ciphertext" in secret
    assert "kept private" not in secret
    depends_on = [name.rpartition("::")[2] for name in children["kubernetes:example.com/v1:Thing"]["dependencies"]]
    assert "group:things.example.com" in depends_on
    assert len(list((tmp_path / "rendered").rglob("*.yaml"))) == len(children)
    pulumi("up", "--yes", "--skip-preview", "--expect-no-changes")
