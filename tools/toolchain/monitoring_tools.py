"""The programs of the monitoring, as entries for the catalogue of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.toolchain.tool import GoMain, Tool, Vendor, required
from tools.toolchain.versions import Fit, Version

if TYPE_CHECKING:
    from collections.abc import Iterable

PROMETHEUS_OPERATOR_MODULE = "github.com/prometheus-operator/prometheus-operator"
ALERTMANAGER_MODULE = "github.com/prometheus/alertmanager"
_PROMETHEUS_MODULE = "github.com/prometheus/prometheus"
_NODE_EXPORTER_MODULE = "github.com/prometheus/node_exporter"
_STATE_METRICS_MODULE = "k8s.io/kube-state-metrics/v2"
_VICTORIA_LOGS_MODULE = "github.com/VictoriaMetrics/VictoriaLogs"
_VERSION_VARIABLE = "github.com/prometheus/common/version.Version"
_VICTORIA_VERSION_VARIABLE = "github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version"


def monitoring_tools() -> Iterable[Tool]:
    """Give each of them. All go into images from scratch, so the machine's own will not do."""
    version = required(PROMETHEUS_OPERATOR_MODULE)
    yield Tool(
        name="prometheus-operator",
        version=version,
        mains={
            "prometheus-operator": GoMain(package=f"{PROMETHEUS_OPERATOR_MODULE}/cmd/operator"),
            "prometheus-config-reloader": GoMain(
                package=f"{PROMETHEUS_OPERATOR_MODULE}/cmd/prometheus-config-reloader"
            ),
        },
        stamps={_VERSION_VARIABLE: str(version)},
        fit=Fit.NEVER,
    )
    release = prometheus_release(required(_PROMETHEUS_MODULE))
    programs = {name: f"{_PROMETHEUS_MODULE}/cmd/{name}" for name in ("prometheus", "promtool")}
    yield _of_prometheus("prometheus", release, programs)
    alertmanager = required(ALERTMANAGER_MODULE)
    programs = {"alertmanager": f"{ALERTMANAGER_MODULE}/cmd/alertmanager"}
    yield _of_prometheus("alertmanager", alertmanager, programs, checksums="sha256sums.txt")
    exporter = required(_NODE_EXPORTER_MODULE)
    yield _of_prometheus("node_exporter", exporter, {"node_exporter": _NODE_EXPORTER_MODULE})
    version = required(_STATE_METRICS_MODULE)
    yield Tool(
        name="kube-state-metrics",
        version=version,
        mains={"kube-state-metrics": GoMain(package=_STATE_METRICS_MODULE)},
        stamps={_VERSION_VARIABLE: f"v{version}"},
        fit=Fit.NEVER,
    )
    yield _victoria("victoria-logs", "victoria-logs")
    yield _victoria("vlagent", "vlutils")


def prometheus_release(module: Version) -> Version:
    """Return which release of Prometheus a version of its Go module is: v0.314.0 is 3.14.0.

    The module's path has no /v3, so it can have no such version:
    https://github.com/prometheus/prometheus#prometheus-code-base
    """
    return Version(module.minor // 100, module.minor % 100, module.patch)


def _of_prometheus(name: str, version: Version, packages: dict[str, str], checksums: str = "") -> Tool:
    release = f"https://github.com/prometheus/{name}/releases/download/v{{version}}"
    return Tool(
        name=name,
        version=version,
        mains={program: GoMain(package=package) for program, package in packages.items()},
        stamps={_VERSION_VARIABLE: str(version)},
        fit=Fit.NEVER,
        vendor=Vendor(
            url=f"{release}/{name}-{{version}}.linux-{{arch}}.tar.gz",
            checksums=f"{release}/{checksums}" if checksums else "",
        ),
    )


def _victoria(name: str, archive: str) -> Tool:
    """Describe a program that its vendor packs into `archive`, and runs in its image, as `name`-prod."""
    version = required(_VICTORIA_LOGS_MODULE)
    release = "https://github.com/VictoriaMetrics/VictoriaLogs/releases/download/v{version}"
    file = f"{release}/{archive}-linux-{{arch}}-v{{version}}"
    return Tool(
        name=f"{name}-prod",
        version=version,
        mains={f"{name}-prod": GoMain(package=f"{_VICTORIA_LOGS_MODULE}/app/{name}")},
        stamps={_VICTORIA_VERSION_VARIABLE: f"{name}-v{version}"},
        fit=Fit.NEVER,
        vendor=Vendor(url=f"{file}.tar.gz", checksums=f"{file}_checksums.txt"),
    )
