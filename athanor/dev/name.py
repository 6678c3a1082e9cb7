"""The name of a folder's pod: the same in each terminal, another for another folder and on another machine."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from athanor.run.description import beginning_of_name
from athanor.runs.backend import data_folder, random_file

if TYPE_CHECKING:
    from pathlib import Path


def state_folder() -> Path:
    """Return where this machine keeps what it knows of the pods that it was connected to."""
    return data_folder(os.environ) / "dev"


def name_of(folder: Path) -> str:
    """Return the name of a folder's pod.

    The path alone would not do: two engineers with the same one, as in development containers, may share a backend,
    and their folders would be merged. Earlier releases used it alone: a pod of such a name is still this folder's where
    this machine has been connected to it.

    Raises:
        OSError: the data folder cannot be written.
    """
    path = str(folder)
    only_by_path = _name(folder, path)
    if any(state_folder().glob(f"{only_by_path}-*.json")):
        return only_by_path
    machine = random_file(data_folder(os.environ) / "machine").read_text(encoding="utf-8")
    return _name(folder, f"{machine}\n{path}")


def _name(folder: Path, what: str) -> str:
    return f"dev-{beginning_of_name(folder.name)}-{hashlib.sha256(what.encode()).hexdigest()[:6]}"
