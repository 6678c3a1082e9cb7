"""The store of installed tools: complete or absent, and installed once even by concurrent processes."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.toolchain.tool import arch

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from tools.progress import Progress
    from tools.toolchain.tool import Tool

_RECIPE_FILE = ".recipe"
_STAGING = ".staging"


def pulumi_home() -> Path:
    """Return the folder where the engine keeps its plugins: the user's own if PULUMI_HOME is set."""
    return Path(os.environ.get("PULUMI_HOME") or paths().cache / "pulumi-home")


def install_folder(tool: Tool) -> Path:
    """Return the folder that holds the tool's programs once it is installed."""
    if tool.is_plugin:
        kind = tool.name.removeprefix("pulumi-resource-")
        return pulumi_home() / "plugins" / f"resource-{kind}-v{tool.version}"
    return paths().cache / "tools" / tool.name / f"{tool.version}-linux-{arch()}"


def is_installed(tool: Tool, recipe: str) -> bool:
    """Return whether the tool is there whole, and if we built it, whether from `recipe`."""
    folder = install_folder(tool)
    if not all(os.access(folder / program, os.X_OK) for program in tool.programs):
        return False
    built_from = folder / _RECIPE_FILE
    return not built_from.is_file() or built_from.read_text(encoding="utf-8") == recipe


def is_built_here(tool: Tool) -> bool:
    """Return whether an installed tool was built from modules, not downloaded from its vendor."""
    return (install_folder(tool) / _RECIPE_FILE).is_file()


def publish(tool: Tool, programs: Mapping[str, Path], recipe: str | None) -> None:
    """Install the tool; a process that looks meanwhile sees the old one, none or the new one, never a part.

    Args:
        tool: what is installed.
        programs: file of each of its programs; they are moved away.
        recipe: what they were built from; None if the vendor built them.
    """
    final = install_folder(tool)
    with staging(final.parent) as folder:
        staged = folder / final.name
        staged.mkdir()
        for name, file in programs.items():
            shutil.move(file, staged / name)
            (staged / name).chmod(0o755)
        if recipe is not None:
            (staged / _RECIPE_FILE).write_text(recipe, encoding="utf-8")
        for file in staged.iterdir():
            _flush(file)
        _flush(staged)
        shutil.rmtree(final, ignore_errors=True)
        staged.rename(final)
        _flush(final.parent)


@contextmanager
def locked(report: Progress | None) -> Generator[None]:
    """Hold the cache's lock while the block runs; the kernel frees it when its holder is killed."""
    folder = paths().cache
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "toolchain.lock").open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if report:
                report.detail("another process is installing tools; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def staging(parent: Path) -> Generator[Path]:
    """Yield an empty folder in `parent`, removed at the end. What a killed holder of the lock left goes first."""
    folder = parent / _STAGING
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
