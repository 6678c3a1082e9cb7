"""Write docs/settings.md from the settings model, so that the page can never say something else than the code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from infra.settings.stack import Settings
from infra.settings.tree import every_field, is_row
from tools.paths import REPOSITORY

if TYPE_CHECKING:
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
    rows = [
        f"| `{key}` | {_default(field)} | {_one_line(field.description or '')} |"
        for key, field in every_field(Settings)
        if is_row(field)
    ]
    return _HEAD + "\n".join(rows) + "\n"


def _one_line(text: str) -> str:
    """A line break would end the table's row."""
    return " ".join(text.split())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, tuple):
        entries = len(value)  # pyright: ignore[reportUnknownArgumentType]
        return f"{entries} {'entry' if entries == 1 else 'entries'}" if entries else "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "none" if value in (None, {}) else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(reference_page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(REPOSITORY)} written\n")
