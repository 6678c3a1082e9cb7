"""The CRDs of Volcano's own chart, for the controllers that run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import yaml

from infra.errors import RefusalError
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


def chart_folder() -> Path:
    """Return where `make tools` puts Volcano's own chart, taken from the verified upstream module."""
    return cache_folder() / "charts" / f"volcano-{VOLCANO}"


def crd_manifests(chart: Path) -> dict[str, Manifest]:
    """Read the CRDs we install from upstream's chart, keyed by file name, without their descriptions.

    Descriptions are three quarters of their size and would sit in every state file and preview.

    Raises:
        RefusalError: the chart is not there.
    """
    manifests: dict[str, Manifest] = {}
    for name in CRDS:
        file = chart / "crd" / "bases" / f"{name}.yaml"
        if not file.is_file():
            raise RefusalError("Volcano chart", str(file), "does not exist", "run `make tools`, which fetches it")
        document = cast("Manifest", yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))
        document["metadata"] = {"name": document["metadata"]["name"]}
        document.pop("status", None)
        manifests[name] = cast("Manifest", _without_descriptions(document))
    return manifests


def _without_descriptions(node: object) -> object:
    """Drop `description` texts of a schema; a property that is itself called description holds a dict and stays."""
    if isinstance(node, dict):
        entries = cast("dict[str, object]", node).items()
        return {
            key: _without_descriptions(value)
            for key, value in entries
            if not (key == "description" and isinstance(value, str))
        }
    if isinstance(node, list):
        return [_without_descriptions(item) for item in cast("list[object]", node)]
    return node
