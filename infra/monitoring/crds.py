"""The CRDs of the Prometheus operator's release that it needs to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.crds import read_crds
from infra.machine import cache_folder
from infra.versions import PROMETHEUS_OPERATOR

if TYPE_CHECKING:
    from pathlib import Path

    from infra.manifests import Manifest

# What the operator's Prometheus and Alertmanager controllers watch whether it is used or not: they wait for each, and
# end after ten minutes without. Other kinds (agents, Thanos, ScrapeConfig) it leaves out where their CRD is missing.
CRDS = (
    "monitoring.coreos.com_alertmanagerconfigs",
    "monitoring.coreos.com_alertmanagers",
    "monitoring.coreos.com_podmonitors",
    "monitoring.coreos.com_probes",
    "monitoring.coreos.com_prometheuses",
    "monitoring.coreos.com_prometheusrules",
    "monitoring.coreos.com_servicemonitors",
)


def crd_folder() -> Path:
    """Return where `make tools` puts the CRDs, taken from the verified upstream module."""
    return cache_folder() / "charts" / f"prometheus-operator-{PROMETHEUS_OPERATOR}"


def crd_manifests(folder: Path) -> dict[str, Manifest]:
    """Return the CRDs by file name.

    Raises:
        RefusalError: they are not there.
    """
    return read_crds(folder, CRDS, "the Prometheus operator")
