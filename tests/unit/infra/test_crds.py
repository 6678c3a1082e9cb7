"""CRDs as upstreams ship them, read into what a stack declares."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
import yaml

from infra import crds
from infra.crds import DURATION, UNSIGNED, read_crds
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


def test_what_was_read_once_is_read_from_json_until_the_yaml_changes(tmp_path, crd):
    file, copy = tmp_path / f"{NAME}.yaml", tmp_path / f"{NAME}.json"
    assert read_crds(tmp_path, [NAME], "somebody")[NAME] == crd
    copy.write_text(copy.read_text(encoding="utf-8").replace("things", "copies"), encoding="utf-8")
    assert read_crds(tmp_path, [NAME], "somebody")[NAME]["metadata"] == {"name": "copies.example.dev"}
    later = copy.stat().st_mtime_ns + 1
    os.utime(file, ns=(later, later))
    assert read_crds(tmp_path, [NAME], "somebody")[NAME] == crd
    assert {each.name for each in tmp_path.iterdir()} == {file.name, copy.name}


def test_a_folder_that_cannot_be_written_to_is_read_all_the_same(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    monkeypatch.setattr(crds.tempfile, "TemporaryDirectory", refuse)
    (tmp_path / f"{NAME}.yaml").write_text(TEXT, encoding="utf-8")
    assert read_crds(tmp_path, [NAME], "somebody")[NAME]["metadata"] == {"name": "things.example.dev"}
    assert not (tmp_path / f"{NAME}.json").exists()


def test_what_is_missing_is_refused_with_its_name_and_the_way_to_get_it(tmp_path):
    with pytest.raises(RefusalError, match=rf"CRDs of somebody.*{NAME}.yaml.*make tools"):
        read_crds(tmp_path, [NAME], "somebody")


QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""As controller-gen writes it for resource.Quantity."""
ANY = [{"type": "integer"}, {"type": "string"}]
LEAVES: dict[str, dict[str, Any]] = {
    "amount": {"anyOf": ANY, "pattern": QUANTITY, "x-kubernetes-int-or-string": True},
    "port": {"anyOf": ANY, "x-kubernetes-int-or-string": True},
    "since": {"type": "string", "format": "date-time"},
    "timeout": {"type": "string"},
    "replicas": {"type": "integer", "format": "int32", "maximum": 100, "default": 1},
    "probes": {"type": "integer", "format": "int32"},
    "seconds": {"type": "integer", "format": "int64"},
    "percentage": {"type": "number", "default": 100},
}


def declared(folder: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a CRD's schema as it is declared; in Go `timeout` is a duration and `probes` unsigned."""
    crd = {"metadata": {"name": "t"}, "spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    (folder / f"{NAME}.yaml").write_text(yaml.safe_dump(crd), encoding="utf-8")
    [version] = read_crds(folder, [NAME], "somebody", {"timeout": DURATION, "probes": UNSIGNED})[NAME]["spec"][
        "versions"
    ]
    return version["schema"]["openAPIV3Schema"]


def nested(leaves: dict[str, Any], levels: int) -> dict[str, Any]:
    """Return a schema with these fields so many levels down, through objects, lists and maps in turn."""
    inner: dict[str, Any] = {"type": "object", "required": sorted(leaves), "properties": leaves}
    for level in range(levels):
        list_or_map = (
            {"type": "array", "items": inner} if level % 2 else {"type": "object", "additionalProperties": inner}
        )
        inner = {"type": "object", "x-kubernetes-validations": [{"rule": "true"}], "properties": {"in": list_or_map}}
    return inner


def test_a_schema_is_whole_at_every_level(tmp_path):
    leaves = {"containers": {"type": "array", "items": {"type": "string"}}, "seconds": LEAVES["seconds"]}
    assert declared(tmp_path, nested(leaves, 12)) == nested(leaves, 12)


def leaf(folder: Any, name: str) -> dict[str, Any]:
    """Return the schema of one of LEAVES, far down."""
    schema = declared(folder, nested(LEAVES, 6))
    for level in reversed(range(6)):
        schema = schema["properties"]["in"]["items" if level % 2 else "additionalProperties"]
    return schema["properties"][name]


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        (
            "amount",
            ["1", "-1.5", ".5Gi", "100m", "1e3", "1E-3", "2E"],
            ["abc", "1e1.5", "1e.5", "1e-9999999", "1 Gi", ""],
        ),
        (
            "since",
            ["2026-11-26T16:00:00Z", "2026-11-26T16:00:00.123456789+01:00"],
            ["2026-11-26t16:00:00z", "2026-11-26T16:00:00+24:00", "2026-11-26T16:00:00x5Z"],
        ),
        (
            "timeout",
            ["10m", "1h0m0s", "1.5h", "-3.2s", "1h2m3.5s", "1.5ms", "1.5µs", "15ns"],
            ["", "-", "5", "abc", "1d", "10 m", "5 minutes", "9999999h", "99999999999s"],
        ),
    ],
)
def test_a_text_that_go_cannot_decode_is_rejected(tmp_path, name, right, wrong):
    schema = leaf(tmp_path, name)
    [rules] = schema.get("allOf", [schema])
    accepted = {
        text
        for text in (*right, *wrong)
        if re.search(rules["pattern"], text) and len(text) >= rules.get("minLength", 0)
    }
    assert accepted == set(right)


@pytest.mark.parametrize(
    ("name", "minimum", "maximum"),
    [
        ("port", -(2**31), 2**31 - 1),
        ("replicas", -(2**31), 100),
        ("probes", 0, 2**31 - 1),
        ("percentage", -(10**18), 10**18),
    ],
)
def test_a_number_that_go_cannot_decode_is_rejected(tmp_path, name, minimum, maximum):
    assert leaf(tmp_path, name) == {**LEAVES[name], "minimum": minimum, "maximum": maximum}


def test_a_text_with_a_format_has_it_where_the_api_server_still_checks_that_it_is_a_text(tmp_path):
    """Next to `type` it takes a list of anything for such a text."""
    since = leaf(tmp_path, "since")
    assert (since["type"], since["allOf"][0]["format"], "format" in since) == ("string", "date-time", False)
