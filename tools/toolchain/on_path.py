"""Tools that the machine already has on PATH."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.process import CommandError, ProgramTimeoutError, run
from tools.toolchain.versions import Fit, parse_version

if TYPE_CHECKING:
    from tools.toolchain.tool import Tool
    from tools.toolchain.versions import Version

_PROBE_SECONDS = 10.0


def find_on_path(tool: Tool) -> tuple[Path, Version] | None:
    """Return the folder with all programs of `tool` at the first fitting version on PATH, and that version."""
    if tool.fit is Fit.NEVER:
        return None
    # Our virtual environments hold wrappers of pulumi and kubectl: taken for the tools, they would call themselves
    # forever, whichever of them is activated.
    own = Path(sys.executable).parent.resolve()
    environments = paths().cache / "venv"
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = shutil.which(tool.name, path=entry)
        place = Path(entry).resolve()
        if program is None or place == own or place.is_relative_to(environments):
            continue
        folder = _folder_with_all(tool, Path(program))
        version = _version_of(folder / tool.name, tool.version_words) if folder else None
        if folder and version and tool.fit.accepts(version, tool.version):
            return folder, version
    return None


def _folder_with_all(tool: Tool, program: Path) -> Path | None:
    """Return the folder where `program` has the tool's other programs next to it: its own, or where its link leads."""
    for folder in (program.parent, program.resolve().parent):
        if all(os.access(folder / name, os.X_OK) for name in tool.programs):
            return folder.absolute()
    return None


def _version_of(program: Path, words: tuple[str, ...]) -> Version | None:
    """Return a program's version; asked once, though /bin may be /usr/bin and several steps want the same program."""
    file = program.resolve()
    return _version(file, file.stat().st_mtime_ns, words)


@cache
def _version(program: Path, _written: int, words: tuple[str, ...]) -> Version | None:
    try:
        return parse_version(run([program, *words], timeout_seconds=_PROBE_SECONDS))
    except (CommandError, OSError, ProgramTimeoutError, UnicodeDecodeError):
        return None
