"""What a test finds in a folder after the program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trainer.source.__main__ import OWN_FOLDER

if TYPE_CHECKING:
    from pathlib import Path


def files(folder: Path) -> dict[str, str]:
    """Return the content of all files but the program's own."""
    paths = (path for path in folder.rglob("*") if path.is_file() and OWN_FOLDER not in path.parts)
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def record_of(folder: Path) -> dict:
    return json.loads((folder / OWN_FOLDER / "source.json").read_text())


# What is fetched
