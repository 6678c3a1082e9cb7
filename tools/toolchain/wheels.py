"""Programs that come as packages of Python's index, each from a file of pins."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.process import run

if TYPE_CHECKING:
    from pathlib import Path


def install_wheel(requirement: Path, folder: Path) -> None:
    """Unpack the package that a file pins by version and SHA-256 into `folder`.

    Raises:
        tools.process.CommandError: it cannot be had, or is not the file that was pinned.
    """
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-compile", "--only-binary=:all:", "--require-hashes"]
    run([*command, "--target", folder, "--requirement", requirement], log=paths().logs / "toolchain.log")
