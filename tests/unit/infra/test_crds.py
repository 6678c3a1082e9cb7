"""CRDs as upstreams ship them, read into what a stack declares."""

from __future__ import annotations

from textwrap import indent

import pytest

from infra.crds import read_crds
from infra.errors import RefusalError

NAME = "example.dev_things"
TEXT = """
metadata: {name: things.example.dev, annotations: {made: by-a-tool}}
spec:
  description: of the whole
  versions:
    - schema:
        properties:
          description: {type: string, description: of the property}
          operator: {enum: [=, "!=", =~]}
status: {storedVersions: []}
"""


@pytest.fixture
def crd(tmp_path):
    (tmp_path / f"{NAME}.yaml").write_text(TEXT, encoding="utf-8")
    return read_crds(tmp_path, [NAME], "somebody")[NAME]


def test_only_desired_state_is_declared(crd):
    assert set(crd) == {"metadata", "spec"}
    assert crd["metadata"] == {"name": "things.example.dev"}


def test_descriptions_go_but_not_properties_of_that_name(crd):
    [version] = crd["spec"]["versions"]
    assert "description" not in crd["spec"]
    assert version["schema"]["properties"]["description"] == {"type": "string"}


def test_a_bare_equals_sign_is_a_text(crd):
    """YAML 1.1 knows it as a type of its own; Alertmanager's CRDs list it as a value."""
    [version] = crd["spec"]["versions"]
    assert version["schema"]["properties"]["operator"]["enum"] == ["=", "!=", "=~"]


def test_what_is_missing_is_refused_with_its_name_and_the_way_to_get_it(tmp_path):
    with pytest.raises(RefusalError, match=rf"CRDs of somebody.*{NAME}.yaml.*make tools"):
        read_crds(tmp_path, [NAME], "somebody")


def test_below_the_checked_levels_anything_goes(tmp_path):
    schema = """
    type: object
    properties:
      spec:
        type: object
        required: [port]
        x-kubernetes-validations: [{rule: "!has(self.pod) || has(self.pod.name)"}]
        x-kubernetes-validations: [{rule: self.pod.name != ""}]
        properties:
          port: {type: integer}
          pod: {type: object, properties: {name: {type: string}}}
          pods: {type: array, items: {type: object, properties: {name: {type: string}}}}
    """
    text = f"metadata: {{name: t}}\nspec:\n  versions:\n  - schema:\n      openAPIV3Schema:\n{indent(schema, '      ')}"
    (tmp_path / f"{NAME}.yaml").write_text(text, encoding="utf-8")

    [version] = read_crds(tmp_path, [NAME], "somebody", levels=2)[NAME]["spec"]["versions"]

    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["required"] == ["port"]
    assert "x-kubernetes-validations" not in spec
    assert "x-kubernetes-validations" not in spec, "a rule would name a field that is cut away"
    assert spec["properties"] == {
        "port": {"type": "integer"},
        "pod": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "pods": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
    }
