"""Builds programs from module graphs whose go.mod and go.sum are in this repository."""

from __future__ import annotations

import hashlib
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.paths import paths
from tools.process import CommandError, run
from tools.toolchain.alicloud_sdk import copy_used_sdk
from tools.toolchain.catalogue import ALICLOUD_PROVIDER, PROVIDER_MODULE, SDK_MODULE, TOOLS, tool_of
from tools.toolchain.copied_modules import COPIED, copy_module
from tools.toolchain.errors import ToolchainError
from tools.toolchain.tool import ALICLOUD_GRAPH, PLATFORM_GRAPH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from tools.progress import Progress
    from tools.toolchain.go_command import Go
    from tools.toolchain.tool import Tool

_PROVIDER = "pulumi-resource-kubernetes"
_SDK_PARTS = ("go/kubernetes/customPulumiTypes.go", "go/kubernetes/utilities", "go/kubernetes/helm/v4")
"""Parts of the SDK that the provider uses, in addition to the package that is ours."""


def complete_provider_sources(go: Go, sources: Path) -> None:
    """Write what is missing in `sources`, a copy of the platform graph's folder, to compile the provider.

    Raises:
        ToolchainError: a module is not available or differs from go.sum.
    """
    _write_embedded_files(go, sources)
    _copy_sdk_parts(go, sources)


def _write_embedded_files(go: Go, sources: Path) -> None:
    """Write the two files that the provider's main embeds, as its upstream's `generate.go` does.

    Upstream keeps them out of its repository, hence out of its module, too.
    """
    upstream = go.module_folder(sources, PROVIDER_MODULE) / "cmd" / _PROVIDER
    for name, extra in (("schema.json", {"version": str(TOOLS[_PROVIDER].version)}), ("terraform-mapping.json", {})):
        content = {**json.loads((upstream / name).read_text(encoding="utf-8")), **extra}
        (sources / _PROVIDER / name).write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")


def _copy_sdk_parts(go: Go, sources: Path) -> None:
    sdk = sources / "kubernetes-sdk"
    upstream = go.module_folder(sdk / "upstream", SDK_MODULE)
    for part in _SDK_PARTS:
        target = sdk / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if (upstream / part).is_dir():
            shutil.copytree(upstream / part, target, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(upstream / part, target)


SCHEMA_GENERATOR = "./pulumi-tfgen-alicloud"
"""Main package of the program that writes the schema."""


def write_empty_schema(sources: Path) -> None:
    """Stand in for the schema: without the file, the go command would not even list the provider's packages."""
    _schema(sources).write_text("{}", encoding="utf-8")


def write_schema(generator: Path, sources: Path) -> None:
    """Make the generator write the schema into `sources`, a copy of the graph's folder.

    Raises:
        ToolchainError: the mapping names what the upstream provider does not have.
    """
    file = _schema(sources)
    words = ["schema", "--skip-docs", "--skip-examples", "--out", str(file.parent)]
    try:
        # Its own folder, because it looks for plugins where the user's are.
        environment = {"PULUMI_HOME": str(sources.parent / "pulumi-home")}
        run([generator, *words], cwd=sources, env=environment, log=paths().logs / "toolchain.log")
    except CommandError as error:
        raise ToolchainError(f"no schema of the Alibaba Cloud provider\n{error}") from error
    # The generator leaves the version out and indents.
    schema = {**json.loads(file.read_text(encoding="utf-8")), "version": str(TOOLS[ALICLOUD_PROVIDER].version)}
    file.write_text(json.dumps(schema, separators=(",", ":")), encoding="utf-8")


def _schema(sources: Path) -> Path:
    return sources / ALICLOUD_PROVIDER / "schema.json"


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
