"""Acquisition of tools: from this machine, else from the vendor, else built from verified modules."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from tools.paths import paths
from tools.process import CommandError, ProgramTimeoutError, run
from tools.toolchain import store
from tools.toolchain.catalogue import ENGINE_WITH_CLOUDS, TOOLS, tool_of
from tools.toolchain.errors import ToolchainError
from tools.toolchain.go_build import GraphBuild, build, recipe
from tools.toolchain.go_command import Go
from tools.toolchain.go_sdk import find_go
from tools.toolchain.vendor import VendorError, Vendors
from tools.toolchain.versions import Fit, Version, go_version, parse_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tools.progress import Progress
    from tools.toolchain.tool import Tool
    from tools.toolchain.versions import Version

_PROBE_SECONDS = 10.0


def find_on_path(tool: Tool) -> tuple[Path, Version] | None:
    """Return the folder with all programs of `tool` at the first fitting version on PATH, and that version."""
    if tool.fit is Fit.NEVER:
        return None
    # Our virtual environments hold wrappers of pulumi and kubectl: taken for the tools, they would call themselves
    # forever, whichever of them is activated.
    own = Path(sys.executable).parent.resolve()
    environments = paths().cache / "venv"
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        program = shutil.which(tool.name, path=entry)
        place = Path(entry).resolve()
        if program is None or place == own or place.is_relative_to(environments):
            continue
        folder = _folder_with_all(tool, Path(program))
        version = _version_of(folder / tool.name, tool.version_words) if folder else None
        if folder and version and tool.fit.accepts(version, tool.version):
            return folder, version
    return None


def _folder_with_all(tool: Tool, program: Path) -> Path | None:
    """Return the folder where `program` has the tool's other programs next to it: its own, or where its link leads."""
    for folder in (program.parent, program.resolve().parent):
        if all(os.access(folder / name, os.X_OK) for name in tool.programs):
            return folder.absolute()
    return None


def _version_of(program: Path, words: tuple[str, ...]) -> Version | None:
    """Return a program's version; asked once, though /bin may be /usr/bin and several steps want the same program."""
    file = program.resolve()
    return _version(file, file.stat().st_mtime_ns, words)


@cache
def _version(program: Path, _written: int, words: tuple[str, ...]) -> Version | None:
    try:
        return parse_version(run([program, *words], timeout_seconds=_PROBE_SECONDS))
    except (CommandError, OSError, ProgramTimeoutError, UnicodeDecodeError):
        return None


Source = Literal["path", "vendor", "build"]
SOURCES: tuple[Source, ...] = get_args(Source)
_CLOUD_BACKENDS = ("s3", "gs", "azblob")
"""Schemes of PULUMI_BACKEND_URL that our build of the engine has no client for."""
SOURCES_VARIABLE = "ATHANOR_TOOL_SOURCES"
"""Environment variable that limits where tools may come from: a comma-separated part of path,vendor,build."""
KEEP_SOURCES_VARIABLE = "ATHANOR_KEEP_GO"
"""Environment variable that keeps the sources and the compiled packages, for those who build often."""


@dataclass(frozen=True, kw_only=True)
class Provided:
    """A tool that is ready to run."""

    tool: Tool
    folder: Path
    """Holds all of the tool's programs."""
    version: Version
    origin: Literal["path", "cache", "vendor", "build"]
    seconds: float
    """Seconds that it took to get; tools that are built together share the time."""


def ensure(names: Iterable[str], report: Progress | None = None) -> dict[str, Path]:
    """Get the tools of these programs; return each program's file by name.

    Raises:
        ToolchainError: a name is unknown, or a tool is not available from any source.
    """
    requested = list(names)
    provided = provide(requested, report)
    programs = {name: provided[tool_of(name).name].folder / name for name in requested}
    if "pulumi" in programs and _wants_engine_with_clouds(provided["pulumi"]):
        programs["pulumi"] = provide([ENGINE_WITH_CLOUDS], report)[ENGINE_WITH_CLOUDS].folder / ENGINE_WITH_CLOUDS
    return programs


def provide(names: Iterable[str], report: Progress | None = None) -> dict[str, Provided]:
    """Get the tools of these programs; return them by the tools' names, with where they came from.

    Raises:
        ToolchainError: a name is unknown, or a tool is not available from any source.
    """
    requested = {tool_of(name).name for name in names}
    # In the table's order: the engine comes before the plugins that it installs.
    tools = [tool for tool in TOOLS.values() if tool.name in requested]
    sources = allowed_sources()
    ready = {tool.name: have for tool in tools if (have := _present(tool, sources))}
    if len(ready) < len(tools):
        with store.locked(report):
            # Another process may have got some while this one waited for the lock.
            ready |= {tool.name: have for tool in tools if tool.name not in ready and (have := _present(tool, sources))}
            ready |= _get([tool for tool in tools if tool.name not in ready], sources, report)
    return {tool.name: ready[tool.name] for tool in tools}


def _wants_engine_with_clouds(engine: Provided) -> bool:
    """Return whether clouds are needed and this is our build without them; other builds always have them."""
    if engine.origin == "path" or not store.is_built_here(engine.tool):
        return False
    whole = TOOLS[ENGINE_WITH_CLOUDS]
    backend = os.environ.get("PULUMI_BACKEND_URL", "").partition("://")[0].lower()
    return backend in _CLOUD_BACKENDS or store.is_installed(whole, tool_recipe(whole))


def discard_sources(report: Progress | None) -> None:
    """Delete Go's modules and compiled packages, several times as large as all programs, which need none of it to run.

    What is built later gets its modules again.
    """
    if os.environ.get(KEEP_SOURCES_VARIABLE):
        return
    with store.locked(report):
        shutil.rmtree(paths().cache / "go", ignore_errors=True)


def is_present(program: str) -> bool:
    """Return whether a program is here already, so that nothing need be downloaded or built for it."""
    return _present(tool_of(program), allowed_sources()) is not None


def allowed_sources() -> tuple[Source, ...]:
    """Return where tools may come from, in the order of preference.

    Raises:
        ToolchainError: the variable names something else.
    """
    text = os.environ.get(SOURCES_VARIABLE, "")
    named = {word.strip() for word in text.split(",") if word.strip()}
    if unknown := named - set(SOURCES):
        raise ToolchainError(f"{SOURCES_VARIABLE}={text} names {', '.join(sorted(unknown))}. Fix: use {SOURCES}")
    return tuple(source for source in SOURCES if not named or source in named)


def tool_recipe(tool: Tool) -> str:
    """Return the digest of what the tool is built from."""
    return recipe({main.graph for main in tool.mains.values()})


def _present(tool: Tool, sources: Sequence[Source]) -> Provided | None:
    begin = time.monotonic()
    if "path" in sources and (on_path := find_on_path(tool)):
        folder, version = on_path
        return Provided(tool=tool, folder=folder, version=version, origin="path", seconds=time.monotonic() - begin)
    if store.is_installed(tool, tool_recipe(tool)):
        return _installed(tool, "cache", begin)
    return None


def _get(tools: Sequence[Tool], sources: Sequence[Source], report: Progress | None) -> dict[str, Provided]:
    """Download or build what the machine does not have; the caller holds the lock."""
    installed: dict[str, Provided] = {}
    if "vendor" in sources:
        vendors = Vendors()
        for tool in tools:
            begin = time.monotonic()
            try:
                _download(tool, vendors, report)
            except VendorError as error:
                _note(f"{tool.name}: {error}")
            else:
                installed[tool.name] = _installed(tool, "vendor", begin)
    missing = [tool for tool in tools if tool.name not in installed]
    if missing and "build" not in sources:
        names = ", ".join(f"{tool.name} {tool.version}" for tool in missing)
        raise ToolchainError(
            f"not available from {', '.join(sources)}: {names}. Fix: allow build in {SOURCES_VARIABLE}"
        )
    if missing:
        begin = time.monotonic()
        _build(missing, report)
        installed |= {tool.name: _installed(tool, "build", begin) for tool in missing}
    return installed


def _download(tool: Tool, vendors: Vendors, report: Progress | None) -> None:
    if report and (tool.vendor or tool.is_plugin):
        report.detail(f"{tool.name} {tool.version}: asking its vendor")
    if tool.is_plugin:
        engine = _present(TOOLS["pulumi"], ("path",))
        if engine is None:
            raise VendorError("there is no engine to install it with")
        vendors.install_plugin(tool, engine.folder / "pulumi", store.pulumi_home())
        return
    with store.staging(paths().cache / "tools") as folder:
        store.publish(tool, vendors.download(tool, folder), None)


def _build(tools: Sequence[Tool], report: Progress | None) -> None:
    graphs = {main.graph for tool in tools for main in tool.mains.values()}
    oldest = max(go_version(graph / "go.mod") for graph in graphs)
    go = Go(program=find_go(oldest, report), log=paths().logs / "toolchain.log")
    with store.staging(paths().cache / "tools") as folder:
        builds = [
            GraphBuild(
                graph=graph,
                mains={
                    name: main.package for tool in tools for name, main in tool.mains.items() if main.graph == graph
                },
                folder=folder / graph.name,
            )
            for graph in graphs
        ]
        files = build(go, builds, report)
        for tool in tools:
            scripts = {name: _copied_script(go, tool, name, folder) for name in tool.module_files}
            store.publish(tool, {**{name: files[name] for name in tool.mains}, **scripts}, tool_recipe(tool))


def _copied_script(go: Go, tool: Tool, name: str, folder: Path) -> Path:
    module, path = tool.module_files[name]
    graph = next(iter(tool.mains.values())).graph
    return shutil.copyfile(go.module_folder(graph, module) / path, folder / name)


def _installed(tool: Tool, origin: Literal["cache", "vendor", "build"], begin: float) -> Provided:
    return Provided(
        tool=tool,
        folder=store.install_folder(tool),
        version=tool.version,
        origin=origin,
        seconds=time.monotonic() - begin,
    )


def _note(text: str) -> None:
    log = paths().logs / "toolchain.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
