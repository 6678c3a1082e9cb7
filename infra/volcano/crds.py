"""The CRDs of Volcano's own chart that the enabled controllers need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.crds import DURATION, read_crds
from infra.machine import cache_folder
from infra.versions import VOLCANO

if TYPE_CHECKING:
    from pathlib import Path

    from infra.manifests import Manifest

# What the enabled controllers and the scheduler watch. The controller manager waits for every CRD of its enabled
# controllers and does nothing at all while one is missing, so the two lists below belong together. Naming the
# controllers, instead of excluding from `*`, keeps a new one of the next Volcano version from waiting for a CRD of its.
CRDS = (
    "batch.volcano.sh_jobs",
    "bus.volcano.sh_commands",
    "nodeinfo.volcano.sh_numatopologies",
    "scheduling.volcano.sh_podgroups",
    "scheduling.volcano.sh_queues",
    "topology.volcano.sh_hypernodes",
)
CONTROLLERS_ENABLED = "job-controller,queue-controller,pg-controller,gc-controller,hyperNode-controller"

_DURATIONS = ("runningDuration", "runningEstimate", "timeout")
"""Durations in Volcano's Go types; its schemas declare them as strings."""


def chart_folder() -> Path:
    """Return where `make tools` puts Volcano's own chart, taken from the verified upstream module."""
    return cache_folder() / "charts" / f"volcano-{VOLCANO}"


def crd_manifests(chart: Path) -> dict[str, Manifest]:
    """Return the CRDs we install from upstream's chart, by file name.

    Raises:
        RefusalError: the chart is not there.
    """
    return read_crds(chart / "crd" / "bases", CRDS, "Volcano", dict.fromkeys(_DURATIONS, DURATION))
