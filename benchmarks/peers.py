"""Packages that the repository's own are compared with, outside its environments."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tools.paths import paths

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tools.progress import Progress


def installed(packages: Sequence[str], report: Progress, *, with_dependencies: bool = False) -> Path:
    """Install peers into the cache, once per set of versions; return the folder, for PYTHONPATH.

    Args:
        packages: As pip takes them, `name==version`, with all that the tests' environment lacks.
        report: Where to say so.
        with_dependencies: Install what they depend on, too, in the versions that they ask for.

    Raises:
        subprocess.CalledProcessError: pip cannot install them.
    """
    folder = paths().cache / "bench-peers" / "-".join(sorted(each.replace("==", "-") for each in packages))
    if not folder.is_dir():
        report.detail(f"installing {', '.join(packages)}")
        new = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        words: list[Any] = ["-m", "pip", "install", "--quiet", "--target", new]
        alone = [] if with_dependencies else ["--no-deps"]
        subprocess.run([sys.executable, *words, *alone, *packages], check=True)
        new.rename(folder)
    return folder
