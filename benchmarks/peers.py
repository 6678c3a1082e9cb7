"""Packages that the repository's own are compared with, outside its environments."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tools.paths import paths

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tools.progress import Progress


def installed(packages: Sequence[str], report: Progress) -> Path:
    """Install peers into the cache, once per set of versions, without their dependencies; return the folder.

    Args:
        packages: As pip takes them, `name==version`, with all that the tests' environment lacks.
        report: Where to say so.
    """
    folder = paths().cache / "bench-peers" / "-".join(sorted(each.replace("==", "-") for each in packages))
    if not folder.is_dir():
        report.detail(f"installing {', '.join(packages)}")
        words: list[Any] = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", folder.with_suffix(".new")]
        subprocess.run([sys.executable, *words, *packages], check=True)
        folder.with_suffix(".new").rename(folder)
    return folder
