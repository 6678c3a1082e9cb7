"""The script that a command starts, which has to be in the folder that the job gets."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from infra.errors import RefusalError
from workloads.ignore_rules import OWN_RULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workloads.local_folder import LocalFolder

_BEFORE_A_SCRIPT = re.compile(r"python[\d.]*|bash|sh|--no-python")
SCRIPT_SUFFIXES = {".py", ".sh"}
"""Endings of the files that are taken for scripts."""


def check_script(program: Sequence[str], source: LocalFolder) -> None:
    """Refuse a command whose script is not among the files that are sent: the pods would find that out one by one.

    Args:
        program: What a rank or pod runs, without a launcher. An absolute path is the image's, and not looked for.
        source: The folder.

    Raises:
        RefusalError: the script does not exist, or .gitignore or .athanorignore names it.
    """
    script = _script(program)
    if script is None or _is_sent(script, source):
        return
    folder = Path(source.path).resolve()
    if (folder / script).exists():
        limit = f"is left out of the code by .gitignore or {OWN_RULES}"
        raise RefusalError("program", str(script), limit, f"write `!/{script}` into {OWN_RULES}")
    raise RefusalError("program", str(script), f"is not in {folder}", "correct it, or name the folder with --workdir")


def _is_sent(script: PurePosixPath, source: LocalFolder) -> bool:
    # A folder is among the names only as a link; the files behind it are there under their own.
    places = (script, *script.parents)
    return any(str(place) in source.archive.names for place in places)


def _script(program: Sequence[str]) -> PurePosixPath | None:
    """Return the relative path of the script that is started; None for modules, programs and scripts elsewhere."""
    words = program[1:] if _BEFORE_A_SCRIPT.fullmatch(PurePosixPath(program[0]).name) else program
    first = PurePosixPath(words[0]) if words else None
    if (
        first is None
        or first.suffix not in SCRIPT_SUFFIXES
        or first.is_absolute()
        or ".." in first.parts
        or "$" in words[0]
    ):
        return None
    return first
