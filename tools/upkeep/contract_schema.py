"""Writes docs/contract.schema.json, the contract for programs of other teams, from the typed outputs.

JSON Schema 2020-12. `offers` is JSON in a string, so that it passes through engines of all languages unchanged:
`contentSchema` describes its content.
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from infra.cuda import ImageCuda
from infra.docstrings import field_docstrings
from infra.offers import NodeFacts, PlatformOffers, PoolOffer, Taint
from infra.outputs import CONTRACT_VERSION, FIELD_NAMES, VERSION_KEY, PlatformOutputs
from tools.paths import REPOSITORY

FILE = REPOSITORY / "docs" / "contract.schema.json"
RELEASED = REPOSITORY / "docs" / "contract-released.schema.json"
"""The schema of the last release: a copy of FILE, made when a version of the package is released."""
Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DATACLASSES = (ImageCuda, NodeFacts, PlatformOffers, PoolOffer, Taint)


class _WithoutTitles(GenerateJsonSchema):
    """Leaves out the fields' titles, which repeat their names."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Never (see pydantic.json_schema)."""
        del schema
        return False


def contract_schema() -> Schema:
    """Return the schema of a stack's outputs; outputs that it does not name are the stack's own matter."""
    offers = _schema(PlatformOffers)
    outputs = _schema(PlatformOutputs)
    for name in FIELD_NAMES:  # pydantic does not look through the type variable of their common base
        outputs["properties"][name]["type"] = "string"
    outputs["properties"]["offers"] |= {"contentMediaType": "application/json", "contentSchema": offers}
    outputs["properties"][VERSION_KEY]["const"] = CONTRACT_VERSION
    return {"$schema": _DIALECT, **outputs}


def broken_promises(released: Schema, current: Schema, place: str = "contract") -> list[str]:
    """Return the breaking changes of the current contract against the released one, as sentences.

    An added output does not need a new version. A changed description is reported, too: it may say something else.
    """
    broken: list[str] = []
    for key, value in released.items():
        where = f"{place}.{key}"
        if key not in current:
            broken.append(f"{where} is gone")
        elif key == "required":
            broken += [f"{place}.{name} is no longer always present" for name in value if name not in current[key]]
        elif isinstance(value, dict) and isinstance(current[key], dict):
            broken += broken_promises(cast("Schema", value), current[key], where)
        elif value != current[key]:
            broken.append(f"{where} was {value!r} and is {current[key]!r}")
    return broken


def text() -> str:
    """Return the file's content."""
    return json.dumps(contract_schema(), indent=2, sort_keys=True) + "\n"


def _schema(of: type) -> Schema:
    schema = TypeAdapter(of).json_schema(mode="serialization", schema_generator=_WithoutTitles)
    definitions = schema.get("$defs", {})
    for each in (of, *_DATACLASSES):
        described = schema if each is of else definitions.get(each.__name__)
        if described is not None:
            _describe(described, each)
    return schema


def _describe(schema: Schema, of: type) -> None:
    """Add the docstrings of a dataclass and its fields, in place: pydantic reads those of its own models only."""
    schema["description"] = inspect.cleandoc(of.__doc__ or "")
    for name, description in field_docstrings(of).items():
        if name in schema["properties"]:
            schema["properties"][name]["description"] = description


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"{FILE.relative_to(REPOSITORY)} written\n")
