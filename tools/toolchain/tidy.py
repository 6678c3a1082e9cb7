"""Tidies go.mod and go.sum of the module graphs after a version in them was changed.

`python -m tools.toolchain.tidy [graph…]`, for maintainers of the pins. It needs a Go module proxy, and the checksum
database for modules that go.sum does not have yet.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.process import run
from tools.toolchain import store
from tools.toolchain.go_build import GraphBuild
from tools.toolchain.go_command import Go
from tools.toolchain.go_sdk import find_go
from tools.toolchain.tool import GRAPHS
from tools.toolchain.versions import go_version

if TYPE_CHECKING:
    from pathlib import Path


def main(names: list[str]) -> int:
    """Tidy every graph, or those of these names, in a copy whose sources are complete; take over the two files."""
    (paths().cache / "go" / "tmp").mkdir(parents=True, exist_ok=True)
    for graph in (graph for graph in GRAPHS if not names or graph.name in names):
        go = Go(program=find_go(go_version(graph / "go.mod"), None), log=paths().logs / "toolchain.log")
        with store.locked(None), store.staging(paths().cache / "tools") as folder:
            copy = GraphBuild(graph=graph, mains={}, folder=folder / graph.name)
            copy.copy_sources(go)
            environment = {**go.environment, "GOFLAGS": "-mod=mod -modcacherw"}
            run([go.program, "mod", "tidy"], cwd=copy.sources, env={**os.environ, **environment})
            _drop_unused_sums(go, copy.sources)
            for name in ("go.mod", "go.sum"):
                shutil.copyfile(copy.sources / name, graph / name)
    return 0


def _drop_unused_sums(go: Go, sources: Path) -> None:
    """Keep the checksums of what go.mod names: the rest, nine of ten lines in one graph, serves no build."""
    listed = json.loads(go.output(["mod", "edit", "-json"], sources))
    replaced = {one["Old"]["Path"]: one["New"] for one in listed["Replace"] or ()}
    used = [replaced.get(one["Path"], one) for one in listed["Require"]]
    versions = {(one["Path"], one.get("Version")) for one in used}
    lines = (sources / "go.sum").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if (line.split()[0], line.split()[1].removesuffix("/go.mod")) in versions]
    (sources / "go.sum").write_text("".join(kept), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
