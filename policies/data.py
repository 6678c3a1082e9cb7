"""Rules about data: retention, encryption, protection from deletion, and the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from policies.node_pools import CLUSTER, NODE_POOL
from policies.rule import Finding, Rule, RuleConfig, demand, message
from policies.values import Value, each, number, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.resources import Resource

_FILE_SYSTEM = "alicloud:nas/fileSystem:FileSystem"
_BUCKET = "alicloud:oss/bucket:Bucket"
_DISK = "alicloud:ecs/ecsDisk:EcsDisk"
_HOLDS_DATA = frozenset({_FILE_SYSTEM, _BUCKET, _DISK, CLUSTER})
_ENCRYPTED = (True, "true", "True")


class ControlPlaneLogs(RuleConfig):
    """Configuration of `control-plane-audit-log`."""

    days: int = Field(default=30, ge=1)
    """Fewest days for which the logs are kept."""


def _kept(volume: Resource, _: RuleConfig) -> Iterator[Finding]:
    if volume.kind == "PersistentVolume":
        given = read(volume.properties, "spec", "persistentVolumeReclaimPolicy")
        text = message(
            "spec.persistentVolumeReclaimPolicy", given, "the data would go with its claim", "set it to Retain"
        )
        yield from demand(given, lambda value: value in (None, "Retain"), text)


def _protected(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    if resource.type not in _HOLDS_DATA and resource.kind != "PersistentVolume":
        return
    if not resource.protect:
        yield message(
            "protect",
            resource.protect,
            "resources with data are protected, so that a preview refuses to delete or replace them",
            "set protect=True in its options (athanor:alicloud.protected)",
        )
    if resource.type == CLUSTER:
        given = read(resource.properties, "deletionProtection")
        text = message("deletionProtection", given, "ACK itself must refuse to delete it", "set it to true")
        yield from demand(given, lambda value: value is True, text)


def _storage_encrypted(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    if resource.type == _FILE_SYSTEM:
        given: Value = number(read(resource.properties, "encryptType"))
        text = message("encryptType", given, "file systems are encrypted", "set it to 1 (NAS's key) or 2 (yours)")
        yield from demand(given, lambda value: value in (1, 2), text)
    elif resource.type == _DISK:
        given = read(resource.properties, "encrypted")
        text = message("encrypted", given, "disks are encrypted", "set it to true")
        yield from demand(given, lambda value: value in _ENCRYPTED, text)


def _node_disks_encrypted(pool: Resource, _: RuleConfig) -> Iterator[Finding]:
    if pool.type != NODE_POOL:
        return
    disks = {
        "systemDiskEncrypted": read(pool.properties, "systemDiskEncrypted"),
        **{
            f"dataDisks[{place}].encrypted": read(disk, "encrypted")
            for place, disk in enumerate(each(read(pool.properties, "dataDisks")))
        },
    }
    for field, given in disks.items():
        text = message(field, given, "disks of nodes are encrypted", "set it to true")
        yield from demand(given, lambda value: value in _ENCRYPTED, text)


def _audit_log(cluster: Resource, config: ControlPlaneLogs) -> Iterator[Finding]:
    if cluster.type != CLUSTER:
        return
    enabled = read(cluster.properties, "auditLogConfig", "enabled")
    text = message("auditLogConfig.enabled", enabled, "who changed what must be on record", "set it to true")
    yield from demand(enabled, lambda value: value is True, text)
    days = number(read(cluster.properties, "controlPlaneLogTtl"))
    text = message("controlPlaneLogTtl", days, f"at least {config.days} days", f"set it to {config.days} or more")
    yield from demand(days, lambda value: isinstance(value, float | int) and value >= config.days, text)


RULES = (
    Rule(
        name="volumes-retained",
        demand="Persistent volumes keep their data when their claim is deleted.",
        severity="high",
        config=RuleConfig,
        check=_kept,
    ),
    Rule(
        name="data-protected",
        demand="Clusters, file systems, buckets, disks and volumes are protected from deletion.",
        severity="high",
        config=RuleConfig,
        check=_protected,
    ),
    Rule(
        name="storage-encrypted",
        demand="File systems and disks are encrypted.",
        severity="high",
        config=RuleConfig,
        check=_storage_encrypted,
    ),
    Rule(
        name="node-disks-encrypted",
        demand="Disks of nodes are encrypted.",
        severity="medium",
        config=RuleConfig,
        check=_node_disks_encrypted,
    ),
    Rule(
        name="control-plane-audit-log",
        demand="Clusters keep an audit log and the logs of their control plane.",
        severity="medium",
        config=ControlPlaneLogs,
        check=_audit_log,
    ),
)
