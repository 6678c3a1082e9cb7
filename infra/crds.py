"""Read the CRDs that an upstream project ships, for the resources that declare them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import yaml

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from infra.manifests import Manifest


class _Loader(yaml.CSafeLoader):
    """As Kubernetes reads YAML: a bare `=`, one of the values that Alertmanager's schema lists, is a text."""


_KEPT_ANNOTATIONS = ("api-approved.kubernetes.io", "gateway.networking.k8s.io/")
_ANYTHING: Manifest = {"x-kubernetes-preserve-unknown-fields": True}
_ANY_OBJECT: Manifest = {"type": "object", **_ANYTHING}
_ANY_LIST: Manifest = {"type": "array", "items": _ANYTHING}


def _as_text(_: object, node: yaml.Node) -> str:
    return str(node.value)


_Loader.add_constructor("tag:yaml.org,2002:value", _as_text)


def read_crds(folder: Path, names: Iterable[str], origin: str, *, levels: int | None = None) -> dict[str, Manifest]:
    """Read `<folder>/<name>.yaml` for each name and return the CRDs by name, without their descriptions.

    Descriptions are three quarters of their size and would sit in every state file and preview.

    Args:
        folder: Where `make tools` puts them.
        names: `<group>_<plural>`, as upstream names the files.
        origin: Whose they are, for the refusal.
        levels: How many levels of fields the API server checks (`spec` is the first); it takes what is below as it is.
            Default: all.

    Raises:
        RefusalError: one is not there.
    """
    manifests: dict[str, Manifest] = {}
    for name in names:
        file = folder / f"{name}.yaml"
        if not file.is_file():
            raise RefusalError(f"CRDs of {origin}", str(file), "does not exist", "run `make tools`, which downloads it")
        document = cast("Manifest", yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader))  # noqa: S506 - it is safe
        document["metadata"] = _metadata(document["metadata"])
        document.pop("status", None)
        crd = cast("Manifest", _without_descriptions(document))
        if levels is not None:
            for version in crd["spec"]["versions"]:
                version["schema"]["openAPIV3Schema"] = _cut(version["schema"]["openAPIV3Schema"], levels)
        manifests[name] = crd
    return manifests


def _metadata(given: Manifest) -> Manifest:
    """Return the name, and what the API server asks of groups below k8s.io: who approved them."""
    kept = {key: value for key, value in given.get("annotations", {}).items() if key.startswith(_KEPT_ANNOTATIONS)}
    return {"name": given["name"], **({"annotations": kept} if kept else {})}


def _cut(schema: Manifest, levels: int) -> Manifest:
    """Return the schema down to so many levels of fields; objects and lists below may hold anything."""
    if schema.get("type") not in ("object", "array"):
        return schema
    if levels == 0:
        return _ANY_LIST if schema["type"] == "array" else _ANY_OBJECT
    cut = dict(schema)
    if "properties" in schema:
        cut["properties"] = {name: _cut(field, levels - 1) for name, field in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            cut[key] = _cut(schema[key], levels)
    if cut != schema:
        # Rules across fields name fields further down: the API server refuses a schema whose rules name what it lacks.
        cut.pop("x-kubernetes-validations", None)
    return cut


def _without_descriptions(node: object) -> object:
    """Drop `description` texts of a schema; a property that is itself called description holds a dict and stays."""
    if isinstance(node, dict):
        entries = cast("dict[str, object]", node).items()
        return {
            key: _without_descriptions(value)
            for key, value in entries
            if not (key == "description" and isinstance(value, str))
        }
    if isinstance(node, list):
        return [_without_descriptions(item) for item in cast("list[object]", node)]
    return node
