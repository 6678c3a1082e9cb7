"""Reads a stack's settings from its file, without the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import yaml

if TYPE_CHECKING:
    from pathlib import Path


def own_config(file: Path, project: str) -> dict[str, Any]:
    """Return a project's own keys of a stack's configuration file, without their prefix; none if there is no file."""
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    content = cast("dict[str, Any] | None", yaml.safe_load(text))
    config = cast("dict[str, Any]", (content or {}).get("config") or {})
    prefix = f"{project}:"
    return {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
