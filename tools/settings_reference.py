"""Write docs/settings.md from the settings model, so that the page can never say something else than the code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pydantic import BaseModel

from infra.settings.stack import Settings
from tools.paths import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

PAGE = REPOSITORY / "docs" / "settings.md"
_HEAD = """# Settings

Keys of `Pulumi.<stack>.yaml` under `config:`, each written as `athanor:<key>`. Dots go into an object:
`pulumi config set --path athanor:digits.epochs 50`. A wrong or unknown key is refused at preview.
This page is written by `make lock`; a test compares it with the code.

| key | default | meaning |
|---|---|---|
"""


def reference_page() -> str:
    """Return the page."""
    rows = [f"| `{key}` | {_default(field)} | {field.description} |" for key, field in _fields(Settings, "")]
    return _HEAD + "\n".join(rows) + "\n"


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        nested = _nested_model(field)
        if nested is None:
            yield prefix + name, field
            continue
        many = isinstance(field.default, tuple)
        if many:
            yield prefix + name, field
        yield from _fields(nested, f"{prefix}{name}{'[]' if many else ''}.")


def _nested_model(field: FieldInfo) -> type[BaseModel] | None:
    annotation: object = field.annotation
    arguments: tuple[object, ...] = getattr(annotation, "__args__", ())
    inner = arguments[0] if arguments else annotation
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, tuple):
        return f"{len(value)} entry" if len(value) == 1 else "none"  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "none" if value in (None, {}) else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(reference_page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(REPOSITORY)} written\n")
