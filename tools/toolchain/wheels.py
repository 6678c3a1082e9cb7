"""Programs in packages of Python's index, each from a file of pins."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.process import CommandError, run
from tools.toolchain import store
from tools.toolchain.errors import ToolchainError

if TYPE_CHECKING:
    from pathlib import Path


def ensure_wheel(requirement: Path, folder: Path, fix: str) -> None:
    """Install what a file pins into `folder`, whole or not at all.

    Raises:
        ToolchainError: it is not available; the message says `fix`.
    """
    if folder.is_dir():
        return
    with store.staging(folder.parent) as staging:
        staged = staging / folder.name
        try:
            install_wheel(requirement, staged)
        except CommandError as error:
            raise ToolchainError(f"{requirement.name}: could not be installed. Fix: {fix}\n{error}") from error
        staged.rename(folder)


def install_wheel(requirement: Path, folder: Path) -> None:
    """Unpack the package that a file pins by version and SHA-256 into `folder`.

    Raises:
        tools.process.CommandError: it is not available, or is not the file that was pinned.
    """
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-compile", "--only-binary=:all:", "--require-hashes"]
    run([*command, "--target", folder, "--requirement", requirement], log=paths().logs / "toolchain.log")
