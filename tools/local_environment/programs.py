"""Programs of the local environment: those that a prediction waits for, and those of the monitoring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.images import mirror
from tools.images import fetch_platform_images, pulled_images
from tools.images.platform_images import GATEWAY
from tools.local_cluster import cluster as local_cluster
from tools.local_environment import local_monitoring
from tools.stacks.preview import engine_tools
from tools.toolchain import ensure, is_present, upstream_manifests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.stack import Settings
    from tools.progress import Progress

CORE, MONITORING = "core", "monitoring"
GROUPS = (CORE, MONITORING)
"""Groups in the order in which they are built."""
VOLCANO_IMAGES = ("vc-scheduler", "vc-controller-manager")


@dataclass(frozen=True, kw_only=True)
class Programs:
    """The programs of one group, by the names that tools.toolchain knows."""

    on_machine: Sequence[str]
    """Programs that run on this machine itself."""
    in_images: Sequence[str] = ()
    """Programs that only run in pods: each goes into an image of its own, unless upstream's is available."""

    def are_present(self) -> bool:
        """Return whether nothing has to be downloaded or built."""
        needed = {*self.on_machine, *self.in_images} - pulled_images(self.in_images)
        return all(is_present(name) for name in needed)


def programs(settings: Settings, group: str) -> Programs:
    """Return the programs of a group that a stack's settings need."""
    if not settings.runs_on_own_local_cluster:
        return Programs(on_machine=sorted(engine_tools(settings)) if group == CORE else [])
    if group == MONITORING:
        return Programs(on_machine=[], in_images=local_monitoring.images(settings))
    simulates_nodes = bool(settings.cluster.simulated_nodes)
    on_machine = {*engine_tools(settings), *local_cluster.tools(simulates_nodes=simulates_nodes)}
    gateway = (GATEWAY,) if settings.gateway.enabled else ()
    in_images = (*local_cluster.PLATFORM_IMAGES, *VOLCANO_IMAGES, *gateway)
    return Programs(on_machine=sorted(on_machine), in_images=in_images)


def get(settings: Settings, groups: Sequence[str], report: Progress) -> None:
    """Get the programs of these groups, and with the first group the files of modules that the Pulumi program reads.

    Raises:
        ToolchainError: one is not available from any source.
    """
    needed = [programs(settings, group) for group in groups]
    images = {name for group in needed for name in group.in_images}
    # What only runs in pods need not be built where its image is available.
    built = images - fetch_platform_images(images, report, place=mirror(settings.images))
    ensure(sorted({name for group in needed for name in group.on_machine} | built), report)
    if CORE in groups:
        upstream_manifests(report, gateway=settings.gateway.enabled)
