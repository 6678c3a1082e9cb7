"""What is declared for an upstream's kinds, held against the whole of its own schemas.

The API server drops a misspelt field of theirs with a mere warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema

from infra.crds import read_crds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def validators(folders: Mapping[Path, Iterable[str]]) -> dict[str, jsonschema.Draft202012Validator]:
    """Return what checks the spec of each kind, by kind, from folders with the names of the CRDs in each."""
    checks = {}
    for folder, names in folders.items():
        for crd in read_crds(folder, names, "upstream").values():
            [stored] = [version for version in crd["spec"]["versions"] if version["storage"]]
            spec = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
            # Not `jsonschema.validate`, which first checks the schema itself, each time for seconds.
            checks[crd["spec"]["names"]["kind"]] = jsonschema.Draft202012Validator(strict(spec))
    return checks


def strict(schema: Any) -> Any:
    """Return a CRD's schema as one of JSON Schema that knows no other fields than those it names."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    # Go takes a flag in the middle of a regular expression, Python does not.
    known = {key: value for key, value in schema.items() if not (key == "pattern" and "(?i)" in str(value))}
    closed = {key: strict(value) for key, value in known.items() if not key.startswith("x-kubernetes")}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    return closed
