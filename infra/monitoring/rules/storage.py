"""Rules about volumes and the disks of nodes.

For a volume that is a folder of its node, kind `local` reports the usage of the node's file system, hostPath nothing.
Metrics: kubelet, pkg/kubelet/metrics; node exporter, collector `filesystem`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring.rules.rule import Alert, Area, Recording

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import StorageThresholds

_VOLUME = "namespace, persistentvolumeclaim"
_FILE_SYSTEM = "node, mountpoint"
# Images mounted read-only are always full; what pods mount is seen as their volumes, or is their node's own.
_FILE_SYSTEMS = (
    '{fstype!~"squashfs|iso9660|erofs|ramfs", mountpoint!~"/(run/containerd|var/lib/(containerd|docker|kubelet))/.+"}'
)
_VOLUME_NAMED = "Volume {{ $labels.namespace }}/{{ $labels.persistentvolumeclaim }}"
_FILE_SYSTEM_NAMED = "{{ $labels.mountpoint }} of {{ $labels.node }}"
_USED = "{{ $value | humanizePercentage }} of its {{ $labels.what }} are in use"


def area(limits: StorageThresholds) -> Area:
    """Return the rules of storage."""
    return Area(
        name="storage",
        recordings=(
            _used("volume:used:ratio", _VOLUME, "kubelet_volume_stats_available_bytes", "bytes"),
            _used("volume:used:ratio", _VOLUME, "kubelet_volume_stats_inodes_free", "inodes"),
            _used("node_filesystem:used:ratio", _FILE_SYSTEM, "node_filesystem_avail_bytes", "bytes"),
            _used("node_filesystem:used:ratio", _FILE_SYSTEM, "node_filesystem_files_free", "inodes"),
        ),
        alerts=(
            _nearly_full("VolumeNearlyFull", "volume", _VOLUME_NAMED, limits),
            _full("VolumeFull", f"volume:used:ratio > {limits.full_ratio:g}", _VOLUME_NAMED, limits),
            _nearly_full("NodeDiskNearlyFull", "node_filesystem", _FILE_SYSTEM_NAMED, limits),
            _full("NodeDiskFull", _full_disks(limits), _FILE_SYSTEM_NAMED, limits),
        ),
    )


_TOTALS = {
    "kubelet_volume_stats_available_bytes": "kubelet_volume_stats_capacity_bytes",
    "kubelet_volume_stats_inodes_free": "kubelet_volume_stats_inodes",
    "node_filesystem_avail_bytes": "node_filesystem_size_bytes",
    "node_filesystem_files_free": "node_filesystem_files",
}


def _used(record: str, by: str, free: str, what: str) -> Recording:
    writable = " unless on (node, mountpoint) node_filesystem_readonly == 1" if by == _FILE_SYSTEM else ""
    which = _FILE_SYSTEMS if by == _FILE_SYSTEM else ""
    expr = f"max by ({by}) (1 - {free}{which} / ({_TOTALS[free]}{which} > 0){writable})"
    return Recording(record=record, expr=expr, labels={"what": what})


def _nearly_full(name: str, of: str, named: str, limits: StorageThresholds) -> Alert:
    return Alert(
        name=name,
        expr=f"{of}:used:ratio > {limits.nearly_full_ratio:g}",
        for_seconds=limits.nearly_full_for_seconds,
        severity="ticket",
        summary=f"{named} is nearly full",
        description=f"{_USED}. Delete what is not needed, or enlarge it, before jobs can no longer write.",
    )


def _full_disks(limits: StorageThresholds) -> str:
    """Return the full disks of nodes: of a large one a few percent are room enough for images and logs."""
    ratio, limit = "node_filesystem:used:ratio", f"{limits.full_ratio:g}"
    short = f"max by ({_FILE_SYSTEM}) (node_filesystem_avail_bytes) < {limits.node_disk_free_gib} * 2^30"
    bytes_left = f'{ratio}{{what="bytes"}} > {limit} and on ({_FILE_SYSTEM}) {short}'
    return f'{ratio}{{what="inodes"}} > {limit} or ({bytes_left})'


def _full(name: str, expr: str, named: str, limits: StorageThresholds) -> Alert:
    return Alert(
        name=name,
        expr=expr,
        for_seconds=limits.full_for_seconds,
        severity="page",
        summary=f"{named} is full",
        description=f"{_USED}: checkpoints, logs and images can no longer be written. Free space, or enlarge it.",
    )
