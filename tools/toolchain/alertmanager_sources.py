"""Complete the sources of Alertmanager, which embeds a web interface that its module does not hold."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tools.toolchain.monitoring_tools import ALERTMANAGER_MODULE

if TYPE_CHECKING:
    from tools.toolchain.go_command import Go

_NOTE = "This build has no web interface: upstream's module holds only the sources of it. The API is under /api/v2.\n"


def copy_alertmanager(go: Go, sources: Path) -> None:
    """Put Alertmanager's module into `sources`, a copy of the graph's folder, with a note where its pages would be.

    The compiler refuses to embed nothing at all; the server answers 404 where a page is missing.

    Raises:
        ToolchainError: the module could not be had or differs from go.sum.
    """
    target = sources / "alertmanager"
    upstream = go.module_folder(target / "upstream", ALERTMANAGER_MODULE)

    def not_compiled(folder: str, names: list[str]) -> list[str]:
        pages = ("app", "mantine-ui") if Path(folder) == upstream / "ui" else ()
        return [name for name in names if name.endswith("_test.go") or name in pages]

    shutil.copytree(upstream, target, ignore=not_compiled, copy_function=shutil.copyfile, dirs_exist_ok=True)
    pages = target / "ui" / "app" / "dist"
    pages.mkdir(parents=True)
    (pages / "absent.txt").write_text(_NOTE, encoding="utf-8")
