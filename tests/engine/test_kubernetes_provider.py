"""The provider that we compile with a part of its SDK registers what is read from YAML as the whole one does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.fixtures.engine_project import EngineProject

if TYPE_CHECKING:
    from pathlib import Path

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


def test_objects_from_yaml_are_registered_by_their_own_types(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    project = EngineProject.create(folder, PROGRAM, "kubernetes")
    (folder / "objects.yaml").write_text(OBJECTS)
    project.up()

    state = project.resources()
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
    assert len(list((folder / "rendered").rglob("*.yaml"))) == len(children)
    project.preview("--expect-no-changes")
