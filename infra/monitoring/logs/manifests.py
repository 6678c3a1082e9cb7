"""All objects of the logs, from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.monitoring import NAMESPACE, VICTORIA_LOGS, VLAGENT
from infra.monitoring.logs.collector import collector_manifest, permission_manifests
from infra.monitoring.logs.network import network_manifests
from infra.monitoring.logs.store import disk_manifests, store_manifest, store_service_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.manifests import Manifest
    from infra.settings.monitoring import LogSettings
    from infra.storage import Backing


@dataclass(frozen=True, kw_only=True)
class LogArgs:
    """Arguments of the objects of the logs."""

    settings: LogSettings
    backing: Backing | None
    """Backing of the store's disk: `NodeFolders` on the cluster of `make up`, else `ClassVolumes`. None: nothing that
    outlives the store's pod."""
    readers: Sequence[str] = (NAMESPACE,)
    """Namespaces of the Prometheus and the Grafana that may come in."""


def log_manifests(args: LogArgs) -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other; none unless kind victoria_logs.

    Their namespaces, NAMESPACE and NODE_NAMESPACE, must be there before them.
    """
    if args.settings.kind != "victoria_logs":
        return {}
    disk = disk_manifests(args.settings, args.backing) if args.backing else {}
    return {
        **network_manifests(args.readers),
        **disk,
        f"{VICTORIA_LOGS}-service": store_service_manifest(),
        VICTORIA_LOGS: store_manifest(args.settings, claimed=args.backing is not None),
        **permission_manifests(),
        VLAGENT: collector_manifest(),
    }
