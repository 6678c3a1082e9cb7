"""What a tool is: its version, which module graph pins its source, and where its vendor offers it."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tools.toolchain.errors import ToolchainError
from tools.toolchain.versions import Fit, Version, required_version

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODULES = Path(__file__).parent / "modules"
PLATFORM_GRAPH = _MODULES / "platform"
"""One module graph for nearly everything, so that what the tools share is compiled once."""
RECENT_GRAPH = _MODULES / "recent"
"""Apart, because these do not compile against the Kubernetes release of the platform graph: they need a later one."""
LANGUAGE_HOST_GRAPH = _MODULES / "language-host"
"""Apart, because it needs an older version of a module that the engine needs too."""
ALICLOUD_GRAPH = _MODULES / "alicloud"
"""Apart, because Pulumi's bridge needs a newer engine library than the engine that can be built."""
GRAPHS = (PLATFORM_GRAPH, RECENT_GRAPH, LANGUAGE_HOST_GRAPH, ALICLOUD_GRAPH)


@dataclass(frozen=True, kw_only=True)
class GoMain:
    """A main package: its import path, or its folder (`./name`) in a module graph of ours."""

    package: str
    graph: Path = PLATFORM_GRAPH


@dataclass(frozen=True, kw_only=True)
class Vendor:
    """Where a tool's vendor offers it; {version}, {arch} (amd64) and {short_arch} (x64) are filled in."""

    url: str
    """The program itself, or a .tar.gz/.tgz that holds it."""
    checksums: str
    """A SHA-256 digest alone, or lines of digest and file name."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """What is installed as one: usually a program, sometimes a program and what has to lie beside it."""

    name: str
    version: Version
    mains: Mapping[str, GoMain]
    """By program name."""
    module_files: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Scripts that come from a module as they are: program name to (module, path in it)."""
    stamps: Mapping[str, str] = field(default_factory=dict[str, str])
    """Go variables that the linker sets so that the program knows its version."""
    fit: Fit = Fit.SAME_MINOR
    version_words: tuple[str, ...] = ("--version",)
    vendor: Vendor | None = None
    is_plugin: bool = False
    """A resource plugin: it lies where the Pulumi engine looks for it."""

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of all programs that the tool consists of."""
        return (*self.mains, *self.module_files)


def arch() -> str:
    """Return this machine's architecture by its Go name.

    Raises:
        ToolchainError: neither amd64 nor arm64.
    """
    machine = platform.machine()
    try:
        return {"x86_64": "amd64", "aarch64": "arm64"}[machine]
    except KeyError:
        raise ToolchainError(f"machine type {machine} is not supported. Fix: use x86_64 or aarch64") from None


def required(module: str, graph: Path = PLATFORM_GRAPH) -> Version:
    """Return the version of `module` that a graph pins.

    Raises:
        ToolchainError: it pins none.
    """
    return required_version(graph / "go.mod", module)
