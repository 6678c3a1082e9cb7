"""Volcano's chart, taken from its verified module."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.toolchain import store
from tools.toolchain.catalogue import PLATFORM_GRAPH, TOOLS, VOLCANO_MODULE
from tools.toolchain.go_command import Go
from tools.toolchain.go_sdk import find_go
from tools.toolchain.versions import go_version

if TYPE_CHECKING:
    from pathlib import Path

    from tools.progress import Progress

_CHART_IN_MODULE = "installer/helm/chart/volcano"


def volcano_chart(report: Progress | None = None) -> Path:
    """Return a folder with upstream's chart of the Volcano version that is built: crd/bases/*.yaml, templates/ ….

    Raises:
        ToolchainError: the module could not be had.
    """
    final = paths().cache / "charts" / f"volcano-{TOOLS['vc-scheduler'].version}"
    if final.is_dir():
        return final
    with store.locked(report), store.staging(final.parent) as folder:
        if not final.is_dir():
            go = Go(program=find_go(go_version(PLATFORM_GRAPH / "go.mod"), report), log=paths().logs / "toolchain.log")
            source = go.module_folder(PLATFORM_GRAPH, VOLCANO_MODULE) / _CHART_IN_MODULE
            shutil.copytree(source, folder / final.name).rename(final)
    return final
