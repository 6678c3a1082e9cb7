"""Reads a stack's state directly from the engine's folder on this machine, because each call of the engine is slow.

Format: the checkpoint files of the engine's file backend, `.pulumi/stacks/<project>/<stack>.json`, version 3, and
version 4, which is the same with the names of features that it needs (written since Pulumi 3.187). For anything else
there, and for other backends, the engine itself is called.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_VERSIONS = (3, 4)
_OPTIONS = "?metadata=skip"
"""Options without which the engine keeps a second file with each, which it empties before it writes it: killed at that
moment, it could never read the state again ("failed to load checkpoint: EOF"). Source:
https://pkg.go.dev/gocloud.dev/blob/fileblob#URLOpener """
_FOLDER = re.compile(rf"file://(/[^?%#]*)(?:{re.escape(_OPTIONS)})?")
_NAME = re.compile(r"[\w.-]+")
_STACK = "pulumi:pulumi:Stack"
_SIGNATURE = '"4dabf18193072939515e22adb298388d"'
"""Key of what is not a plain value, such as a secret (engine, sdk/go/common/resource/sig)."""


def backend_url(folder: str | Path) -> str:
    """Return the address of the engine's file backend in an absolute folder, where nothing is lost in a kill."""
    return f"file://{folder}{_OPTIONS}"


def read_state(url: str, project: str, stack: str) -> dict[str, Any] | None:
    """Return a stack's deployment, as `pulumi stack export` has it; None where only the engine can tell."""
    folder = _FOLDER.fullmatch(url)
    if folder is None or not _NAME.fullmatch(project) or not _NAME.fullmatch(stack):
        return None
    try:
        content = json.loads((Path(folder[1]) / ".pulumi" / "stacks" / project / f"{stack}.json").read_bytes())
        if content["version"] not in _VERSIONS:
            return None
        return content["checkpoint"]["latest"] or {}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def plain_outputs(deployment: dict[str, Any]) -> dict[str, Any] | None:
    """Return the outputs in a deployment; None if one of them is a secret, which the engine alone can read."""
    outputs: list[dict[str, Any]] = [
        each.get("outputs", {}) for each in deployment.get("resources", []) if each["type"] == _STACK
    ]
    if _SIGNATURE in json.dumps(outputs):
        return None
    return outputs[0] if outputs else {}
