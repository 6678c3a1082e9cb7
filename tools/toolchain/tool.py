"""The type of a tool: its version, the module graph that pins its source, and the vendor's download."""

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
ENGINE_WITH_CLOUDS_GRAPH = _MODULES / "engine-with-clouds"
"""Apart, because that of the platform has an engine without what this one is for."""
ALICLOUD_GRAPH = _MODULES / "alicloud"
"""Apart, because Pulumi's bridge needs a newer engine library than the engine that can be built."""
YAML_GRAPH = _MODULES / "yaml"
"""Apart, because the last release of the language host for YAML that is a Go module fits an earlier engine library."""
NODEJS_GRAPH = _MODULES / "nodejs"
"""Apart, because only projects in TypeScript and JavaScript need it; its modules are of the platform's versions."""
METRICS_ADAPTER_GRAPH = _MODULES / "metrics-adapter"
"""Apart, because only stacks with `autoscaling` need it; its modules are of the platform's versions."""
GATEWAY_GRAPH = _MODULES / "gateway"
"""Apart, because only stacks with a `gateway` need it, and it is for a later Kubernetes library than the platform's."""
_SHORT_ARCH = {"amd64": "x64", "arm64": "arm64"}
GRAPHS = (
    PLATFORM_GRAPH,
    ENGINE_WITH_CLOUDS_GRAPH,
    ALICLOUD_GRAPH,
    YAML_GRAPH,
    NODEJS_GRAPH,
    METRICS_ADAPTER_GRAPH,
    GATEWAY_GRAPH,
)


@dataclass(frozen=True, kw_only=True)
class GoMain:
    """A main package: its import path, or its folder (`./name`) in a module graph of ours."""

    package: str
    graph: Path = PLATFORM_GRAPH


@dataclass(frozen=True, kw_only=True)
class Vendor:
    """Address of a tool's download; {version}, {arch} (amd64) and {short_arch} (x64) are filled in."""

    url: str
    """The program itself, or a .tar.gz/.tgz that holds it."""
    checksums: str = ""
    """Where the vendor publishes a SHA-256 digest alone, or lines of digest and file name; for a file whose digest is
    stated nowhere else. Empty: the file is taken with its recorded digest (vendor.py) or not at all."""

    def addresses(self, version: Version, arch: str) -> tuple[str, str]:
        """Return the addresses of the file and of its checksums for a version and a Go architecture."""
        values = {"version": version, "arch": arch, "short_arch": _SHORT_ARCH[arch]}
        return self.url.format(**values), self.checksums.format(**values)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A unit of installation: usually a program, sometimes a program and what has to be next to it."""

    name: str
    version: Version
    mains: Mapping[str, GoMain]
    """Main packages by program name."""
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
