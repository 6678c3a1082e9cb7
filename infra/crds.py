"""Reads the CRDs that upstream projects ship, for the resources that declare them."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import yaml

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from infra.manifests import Manifest


class _Loader(yaml.CSafeLoader):
    """As Kubernetes reads YAML: a bare `=`, one of the values that Alertmanager's schema lists, is a text."""


_KEPT_ANNOTATIONS = ("api-approved.kubernetes.io", "gateway.networking.k8s.io/")

# Schemas that are generated from Go types accept values that the types do not, and the API server does not hold `int32`
# to its range. A controller decodes a list as a whole, so that one such object stops it for everybody.
_ANY_EXPONENT = r"([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+)))"
_WHOLE_EXPONENT = r"([eE](\+|-)?[0-9]{1,2})"
"""Go computes with a power of ten: `1e-9999999` takes it seconds, and more digits hours."""
_INT32: Manifest = {"minimum": -(2**31), "maximum": 2**31 - 1}
_FLOAT32: Manifest = {"minimum": -(10**18), "maximum": 10**18}
"""The API server compares whole numbers as 64 bits."""
_TIME: Manifest = {"pattern": r"^.{10}T.{8}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"}
_DIGITS = {"h": 6, "m": 7, "s": 9, "ms": 12, "[uµ]s": 15, "ns": 18}
"""Most digits of each part of a duration, so that the sum is within the 64 bits of Go's nanoseconds."""
_PARTS = "".join(rf"([0-9]{{1,{digits}}}(\.[0-9]+)?{unit})?" for unit, digits in _DIGITS.items())

DURATION: Manifest = {"type": "string", "minLength": 2, "pattern": f"^-?{_PARTS}$"}
UNSIGNED: Manifest = {"type": "integer", "minimum": 0}
_NO_TYPES: Mapping[str, Manifest] = MappingProxyType({})


def _as_text(_: object, node: yaml.Node) -> str:
    return str(node.value)


_Loader.add_constructor("tag:yaml.org,2002:value", _as_text)


def read_crds(
    folder: Path, names: Iterable[str], origin: str, go_types: Mapping[str, Manifest] = _NO_TYPES
) -> dict[str, Manifest]:
    """Read `<folder>/<name>.yaml` for each name and return the CRDs by name, without their descriptions.

    Descriptions are three quarters of their size and would sit in every state file and preview. Everything else is
    there, and rejects in addition what Go cannot decode.

    Args:
        folder: Where `make tools` puts them.
        names: `<group>_<plural>`, as upstream names the files.
        origin: Whose they are, for the refusal.
        go_types: What fields of a name are in Go, DURATION or UNSIGNED, where upstream's schema does not say it.

    Raises:
        RefusalError: one is not there.
    """
    manifests: dict[str, Manifest] = {}
    for name in names:
        file = folder / f"{name}.yaml"
        if not file.is_file():
            raise RefusalError(f"CRDs of {origin}", str(file), "does not exist", "run `make tools`, which downloads it")
        document = _document(file)
        document["metadata"] = _metadata(document["metadata"])
        document.pop("status", None)
        manifests[name] = cast("Manifest", _declared(document, go_types))
    return manifests


def _document(file: Path) -> Manifest:
    """Read a CRD. Its YAML takes a hundred times as long as JSON, seconds for all, so a copy stays next to it."""
    copy = file.with_suffix(".json")
    if copy.is_file() and copy.stat().st_mtime_ns >= file.stat().st_mtime_ns:
        return cast("Manifest", json.loads(copy.read_text(encoding="utf-8")))
    document = cast("Manifest", yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader))  # noqa: S506 - it is safe
    # Another program may read it meanwhile; a folder that cannot be written to stays without.
    with suppress(OSError), tempfile.TemporaryDirectory(dir=file.parent, prefix=".") as folder:
        whole = Path(folder, copy.name)
        whole.write_text(json.dumps(document), encoding="utf-8")
        whole.replace(copy)
    return document


def _metadata(given: Manifest) -> Manifest:
    """Return the name, and what the API server asks of groups below k8s.io: who approved them."""
    kept = {key: value for key, value in given.get("annotations", {}).items() if key.startswith(_KEPT_ANNOTATIONS)}
    return {"name": given["name"], **({"annotations": kept} if kept else {})}


def _declared(node: object, go_types: Mapping[str, Manifest]) -> object:
    """Drop the `description` texts of a schema and reject what Go cannot decode.

    A property that is itself called description holds a dict and stays.
    """
    if isinstance(node, list):
        return [_declared(item, go_types) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    schema: Manifest = {}
    for key, value in cast("Manifest", node).items():
        if key == "description" and isinstance(value, str):
            continue
        schema[key] = _declared(_typed(value, go_types.get(key)), go_types)
    return _decodable(schema)


def _typed(field: object, go_type: Manifest | None) -> object:
    if not isinstance(field, dict):
        return field
    schema = cast("Manifest", field)
    return go_type | schema if go_type and schema.get("type") == go_type["type"] else schema


def _decodable(schema: Manifest) -> Manifest:
    match schema:
        case {"x-kubernetes-int-or-string": True, "pattern": str(quantity)}:
            return {**schema, "pattern": quantity.replace(_ANY_EXPONENT, _WHOLE_EXPONENT)}
        case {"x-kubernetes-int-or-string": True} | {"type": "integer", "format": "int32"}:
            return {**_INT32, **schema}
        case {"type": "number"}:
            return {**_FLOAT32, **schema}
        case {"type": "string", "format": form, **others}:
            # Next to `type`, the API server takes a list of anything for a text with a format.
            return {**others, "type": "string", "allOf": [{"format": form, **(_TIME if form == "date-time" else {})}]}
        case _:
            return schema
