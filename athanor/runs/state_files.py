"""State files of runs in a folder, read directly: the engine takes half a second to list them, and again for each.

Format: the checkpoint files of the engine's file backend (pulumi 3.231, pkg/backend/diy): .pulumi/meta.yaml says that
stacks are kept by project, .pulumi/stacks/<project>/<stack>.json or .json.gz has version 3 of a checkpoint.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

PROJECT = "athanor-runs"
"""Pulumi project of all runs; each is a stack of it."""
_STACK = "pulumi:pulumi:Stack"
_VERSION = 3


@dataclass(frozen=True, kw_only=True)
class KnownRun:
    """A run as its backend has it."""

    updated: str
    """Time of the last update; empty: never."""
    outputs: Mapping[str, str] | None
    """Its outputs; None: the engine has to be asked."""


def runs_in_folder(url: str, project: str) -> dict[str, KnownRun] | None:
    """Return the runs of a backend in a folder by their names; None for another backend, which the engine must list.

    Args:
        url: The backend's, as `pulumi whoami` prints it.
        project: Of the runs.
    """
    address = urlsplit(url)
    if address.scheme != "file":
        return None
    folder = Path(unquote(f"{address.netloc}{address.path}")).expanduser() / ".pulumi"
    try:
        if "version: 1" not in (folder / "meta.yaml").read_text(encoding="utf-8"):
            return None
    except OSError:
        return None
    files = sorted((folder / "stacks" / project).glob("*.json*"))
    return {
        file.name.partition(".json")[0]: _known(file) for file in files if file.name.endswith((".json", ".json.gz"))
    }


def _known(file: Path) -> KnownRun:
    """Return the run in a file; one that cannot be read, or is of another version, is left to the engine."""
    try:
        content = file.read_bytes()
        state: dict[str, Any] = json.loads(gzip.decompress(content) if file.suffix == ".gz" else content)
        if state["version"] != _VERSION:
            return KnownRun(updated="", outputs=None)
        latest: dict[str, Any] = state["checkpoint"]["latest"] or {}
        resources: list[dict[str, Any]] = latest.get("resources") or []
        outputs: dict[str, str] = {}
        for each in resources:
            if each["type"] == _STACK:
                outputs |= {name: str(value) for name, value in each.get("outputs", {}).items()}
        manifest: dict[str, str] = latest.get("manifest", {})
        return KnownRun(updated=manifest.get("time", ""), outputs=outputs)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        return KnownRun(updated="", outputs=None)
