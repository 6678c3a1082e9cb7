"""Builds programs from module graphs whose go.mod and go.sum are in this repository."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.toolchain.alicloud_schema import SCHEMA_GENERATOR, write_empty_schema, write_schema
from tools.toolchain.alicloud_sdk import copy_used_sdk
from tools.toolchain.catalogue import ALICLOUD_PROVIDER, TOOLS, tool_of
from tools.toolchain.copied_modules import COPIED, copy_module
from tools.toolchain.provider_sources import complete_provider_sources
from tools.toolchain.tool import ALICLOUD_GRAPH, PLATFORM_GRAPH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from tools.progress import Progress
    from tools.toolchain.go_command import Go
    from tools.toolchain.tool import Tool

# Most of a cold `make up` is this compilation. Debug tables would cost a fifth more, inlining everywhere a third more:
# stack traces stay whole, and what the programs lose is in docs/decisions/0002. The standard library is inlined: it is
# small, and where programs spend their time (maps, garbage collection, JSON).
_FLAGS = (
    *("-trimpath", "-buildvcs=false", "-pgo=off"),
    *("-gcflags=all=-dwarf=false -l", "-gcflags=std=-dwarf=false"),
)


@dataclass(frozen=True, kw_only=True)
class GraphBuild:
    """The programs to build from one module graph, in a copy of its folder."""

    graph: Path
    mains: Mapping[str, str]
    """Main packages by program name: import path, or `./folder` of a main package in the graph's own folder."""
    folder: Path
    """Does not exist yet; for the copy and the programs."""

    @property
    def sources(self) -> Path:
        """Folder of the copy."""
        return self.folder / "sources"

    def copy_sources(self, go: Go) -> None:
        """Copy the graph's folder and add what it takes from modules."""
        shutil.copytree(self.graph, self.sources)
        for copied in COPIED.get(self.graph, ()):
            copy_module(go, self.sources, copied)
        if self.graph == PLATFORM_GRAPH:
            complete_provider_sources(go, self.sources)
        if self.graph == ALICLOUD_GRAPH:
            copy_used_sdk(go, self.sources)
            write_empty_schema(self.sources)

    def download(self, go: Go) -> int:
        """Get the modules needed; return of how many packages the programs consist."""
        self.copy_sources(go)
        command = ["list", "-deps", *self.mains.values()]
        return len(go.output(command, self.sources).splitlines())

    def compile(self, go: Go, total: int, report: Progress | None) -> dict[str, Path]:
        """Compile all of `total` packages that the cache lacks; return the file of each program."""
        if self.graph == ALICLOUD_GRAPH:
            generator = self._link({ALICLOUD_PROVIDER: SCHEMA_GENERATOR}, go, total, report)
            write_schema(generator[ALICLOUD_PROVIDER], self.sources)
        return self._link(self.mains, go, total, report)

    def _link(self, mains: Mapping[str, str], go: Go, total: int, report: Progress | None) -> dict[str, Path]:
        output = self.folder / "programs"
        # One call for all: the go command then keeps every core busy until the last program.
        # Each package's own, because half of the programs keep their versions in the same variable of a library.
        stamps = [f"-ldflags={package}={linker_flags([tool_of(name)])}" for name, package in mains.items()]
        arguments = [*_FLAGS, *stamps, "-o", f"{output}/", *mains.values()]
        go.compile(arguments, self.sources, total, report)
        return {name: output / _output_name(package) for name, package in mains.items()}


def build(go: Go, builds: Iterable[GraphBuild], report: Progress | None) -> dict[str, Path]:
    """Build all programs, downloading the next modules while the processor compiles; return their files by name.

    Raises:
        ToolchainError: a module is not available, differs from go.sum, or does not compile.
    """
    scratch = paths().cache / "go" / "tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    # The one with the most to download last: it downloads while the others compile.
    ordered = sorted(builds, key=lambda one: (one.graph == PLATFORM_GRAPH, one.graph))
    files: dict[str, Path] = {}
    with ThreadPoolExecutor(max_workers=1) as background:
        downloads = [background.submit(one.download, go) for one in ordered]
        if report:
            report.detail(f"downloading Go modules; programs to build: {sum(len(one.mains) for one in ordered)}")
        # The standard library needs no module.
        go.compile([*_FLAGS, "std"], ordered[0].graph, 0, None)
        for one, downloaded in zip(ordered, downloads, strict=True):
            files |= one.compile(go, downloaded.result(), report)
    return files


def linker_flags(tools: Iterable[Tool]) -> str:
    """Return the linker's flags for programs of these tools: no symbol tables, and each tool's version in it."""
    stamps = {stamp for tool in tools for stamp in tool.stamps.items()}
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in sorted(stamps))])


def recipe(graphs: Collection[Path]) -> str:
    """Return a digest of all that decides what is built from module graphs: their files and our flags."""
    tools = [tool for tool in TOOLS.values() if any(main.graph in graphs for main in tool.mains.values())]
    copied = tuple(one for graph in sorted(graphs) for one in COPIED.get(graph, ()))
    digest = hashlib.sha256(f"{_FLAGS}{linker_flags(tools)}{copied}".encode())
    for graph in sorted(graphs):
        for file in sorted(path for path in graph.rglob("*") if path.is_file()):
            digest.update(f"{file.relative_to(graph.parent).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _output_name(package: str) -> str:
    """Return the file name that `go build` gives a main package: its last element that is not a major version."""
    *_, parent, last = ["", *package.split("/")]
    return parent if last.startswith("v") and last[1:].isdigit() else last
