"""Bring go.mod and go.sum of the module graphs in order after a version in them was changed.

`python -m tools.toolchain.tidy`: for who maintains the pins. It needs a Go module proxy, and the checksum database for
modules that go.sum does not know yet.
"""

from __future__ import annotations

import os
import shutil
import sys

from tools.paths import paths
from tools.process import run
from tools.toolchain import store
from tools.toolchain.catalogue import KWOK_GRAPH, LANGUAGE_HOST_GRAPH, PLATFORM_GRAPH
from tools.toolchain.go_build import GraphBuild
from tools.toolchain.go_command import Go
from tools.toolchain.go_sdk import find_go
from tools.toolchain.versions import go_version


def main() -> int:
    """Tidy every graph in a copy, whose sources are complete, and take over the two files."""
    (paths().cache / "go" / "tmp").mkdir(parents=True, exist_ok=True)
    for graph in (PLATFORM_GRAPH, KWOK_GRAPH, LANGUAGE_HOST_GRAPH):
        go = Go(program=find_go(go_version(graph / "go.mod"), None), log=paths().logs / "toolchain.log")
        with store.locked(None), store.staging(paths().cache / "tools") as folder:
            copy = GraphBuild(graph=graph, mains={}, folder=folder / graph.name)
            copy.copy_sources(go)
            environment = {**go.environment, "GOFLAGS": "-mod=mod -modcacherw"}
            run([go.program, "mod", "tidy"], cwd=copy.sources, env={**os.environ, **environment})
            for name in ("go.mod", "go.sum"):
                shutil.copyfile(copy.sources / name, graph / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
