"""Manifests that upstreams publish and the platform declares, from the verified modules of the built programs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from infra.versions import GATEWAY_API
from tools.paths import paths
from tools.toolchain import store
from tools.toolchain.catalogue import GATEWAY, GATEWAY_MODULE, TOOLS, VOLCANO_MODULE
from tools.toolchain.go_command import Go
from tools.toolchain.go_sdk import find_go
from tools.toolchain.monitoring_tools import PROMETHEUS_OPERATOR_MODULE
from tools.toolchain.tool import GATEWAY_GRAPH, PLATFORM_GRAPH
from tools.toolchain.versions import go_version

if TYPE_CHECKING:
    from pathlib import Path

    from tools.progress import Progress


_GATEWAY_API_MODULE = "sigs.k8s.io/gateway-api"


def upstream_manifests(report: Progress | None = None, *, gateway: bool) -> None:
    """Copy them to the cache, where the program that declares them reads them.

    Args:
        report: shows what is waited for.
        gateway: whether a stack has a gateway.

    Raises:
        ToolchainError: a module is not available.
    """
    volcano_chart(report)
    prometheus_operator_crds(report)
    if gateway:
        gateway_api_crds(report)
        envoy_gateway_crds(report)


def volcano_chart(report: Progress | None = None) -> Path:
    """Return a folder with upstream's chart of the Volcano version that is built: crd/bases/*.yaml, templates/ ….

    Raises:
        ToolchainError: the module is not available.
    """
    name = f"volcano-{TOOLS['vc-scheduler'].version}"
    return _copy(name, PLATFORM_GRAPH / "volcano" / "upstream", VOLCANO_MODULE, "installer/helm/chart/volcano", report)


def prometheus_operator_crds(report: Progress | None = None) -> Path:
    """Return a folder with the CRDs of the operator that is built: monitoring.coreos.com_<plural>.yaml each.

    Raises:
        ToolchainError: the module is not available.
    """
    name = f"prometheus-operator-{TOOLS['prometheus-operator'].version}"
    return _copy(name, PLATFORM_GRAPH, PROMETHEUS_OPERATOR_MODULE, "example/prometheus-operator-crd", report)


def gateway_api_crds(report: Progress | None = None) -> Path:
    """Return a folder with the CRDs of the Gateway API's standard channel: <group>_<plural>.yaml each.

    Raises:
        ToolchainError: the module is not available.
    """
    return _copy(f"gateway-api-{GATEWAY_API}", GATEWAY_GRAPH, _GATEWAY_API_MODULE, "config/crd/standard", report)


def envoy_gateway_crds(report: Progress | None = None) -> Path:
    """Return a folder with the CRDs of the Envoy Gateway that is built: gateway.envoyproxy.io_<plural>.yaml each.

    Raises:
        ToolchainError: the module is not available.
    """
    name = f"envoy-gateway-{TOOLS[GATEWAY].version}"
    upstream, path = GATEWAY_GRAPH / "envoy-gateway" / "upstream", "charts/gateway-helm/charts/crds/crds/generated"
    return _copy(name, upstream, GATEWAY_MODULE, path, report)


def _copy(name: str, graph: Path, module: str, path: str, report: Progress | None) -> Path:
    final = paths().cache / "charts" / name
    if final.is_dir():
        return final
    with store.locked(report), store.staging(final.parent) as folder:
        if not final.is_dir():
            go = Go(program=find_go(go_version(graph / "go.mod"), report), log=paths().logs / "toolchain.log")
            shutil.copytree(go.module_folder(graph, module) / path, folder / name).rename(final)
    return final
