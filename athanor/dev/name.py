"""The name of a folder's development pod: stable across terminals, distinct for each folder and machine."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from athanor.run.description import beginning_of_name
from athanor.runs.backend import data_folder, random_file
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable
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


def name_of_pod(folder: Path, asked: str | None, exists: Callable[[str], bool]) -> str:
    """Return the name of the pod that a folder has, or will have: there is one for each folder.

    Args:
        folder: The folder.
        asked: The name of --name, which later commands in the folder need not repeat.
        exists: Whether there is a run of a name.

    Raises:
        RefusalError: it has one of another name.
    """
    default = name_of(folder)
    file = state_folder() / f"{default}.name"
    before = file.read_text(encoding="utf-8") if file.exists() else default
    if asked in {None, before} and before == default:
        return default
    if not exists(before):
        file.unlink(missing_ok=True)
        before = asked or default
    if asked not in {None, before}:
        fix = f"omit it to connect, or end that pod first: athanor dev --stop --name {before}"
        raise RefusalError("--name", asked, f"this folder has a pod already, {before}", fix)
    if before != default:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(before, encoding="utf-8")
    return before


def _name(folder: Path, what: str) -> str:
    return f"dev-{beginning_of_name(folder.name)}-{hashlib.sha256(what.encode()).hexdigest()[:6]}"
