"""All resources of a stack that exist in an account, whatever the engine's state says.

For the time after `pulumi destroy`. Resources with tags are found by their owner tags, all others by their names
(infra/alicloud/names.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from athanor.account.listed import OWNER_TAGS, Listed, tags_of
from athanor.account.lookup import LOOKUPS, candidates, clusters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from athanor.account.cloud import Cloud
    from infra.settings.stack import Settings

_CSI_TAG, _CSI = "createdby", "alibabacloud-csi-plugin"
_CLUSTER_TAG = "ack.aliyun.com"
"""Tag that ACK's driver sets on disks of claims; source: kubernetes-sigs/alibaba-cloud-csi-driver, pkg/disk."""
_UNATTACHED = "Available"


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A stack, as its resources name it."""

    project: str
    stack: str

    @property
    def tags(self) -> dict[str, str]:
        """The tags of everything that carries tags."""
        return dict(zip(OWNER_TAGS, (self.project, self.stack), strict=True))

    @property
    def prefix(self) -> str:
        """Prefix of physical names."""
        return f"{self.project}-{self.stack}-"


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Something that exists."""

    kind: str
    id: str
    name: str
    status: str
    """Its status in the API; empty where it has none."""
    billed: bool
    """Whether it costs money by existing."""
    known_by: str
    """Evidence that it is the stack's."""
    certain: bool = True
    """Whether it is the stack's: disks of deleted clusters may have been another stack's."""


@dataclass(frozen=True, kw_only=True)
class _Kind:
    title: str
    listed: Listed
    billed: bool = False
    inputs: tuple[Mapping[str, str], ...] = ({},)
    """Inputs of the operation, one call for each."""


def _known(token: str) -> Listed:
    """Return the look-up by which `make recover` finds a kind."""
    return cast("Listed", LOOKUPS[f"alicloud:{token}"])


_INSTANCES = Listed(
    product="ecs",
    operation="DescribeInstances",
    place="Instances.Instance",
    same={"InstanceName": "name"},
    id="{InstanceId}",
)
_DISKS = Listed(product="ecs", operation="DescribeDisks", place="Disks.Disk", same={"DiskName": "name"}, id="{DiskId}")
_FOUND_BY_TAG = (
    _Kind(title="ECS instance", listed=_INSTANCES, billed=True),
    _Kind(title="disk", listed=_DISKS, billed=True),
)
"""Kinds that ACK creates for pools, with the pools' tags. An account may have thousands: only the stack's are
listed."""
_KINDS = (
    _Kind(title="file system", listed=_known("nas/fileSystem:FileSystem"), billed=True),
    _Kind(title="NAT gateway", listed=_known("vpc/natGateway:NatGateway"), billed=True),
    _Kind(title="EIP", listed=_known("ecs/eipAddress:EipAddress"), billed=True),
    _Kind(
        title="NAS access group",
        listed=_known("nas/accessGroup:AccessGroup"),
        inputs=({"fileSystemType": "standard"}, {"fileSystemType": "extreme"}),
    ),
    _Kind(title="deployment set", listed=_known("ecs/ecsDeploymentSet:EcsDeploymentSet")),
    _Kind(title="security group", listed=_known("ecs/securityGroup:SecurityGroup")),
    _Kind(title="vswitch", listed=_known("vpc/switch:Switch")),
    _Kind(title="VPC", listed=_known("vpc/network:Network")),
)
"""Kinds in the order in which they can be deleted. Parts, such as mount targets and pools, go with what they belong
to."""


def leftovers(cloud: Cloud, owner: Owner, settings: Settings) -> list[Leftover]:
    """Return a stack's resources that still exist in the account, and disks of deleted clusters of any owner.

    Raises:
        CloudError: the account could not be asked.
    """
    present = list(clusters(cloud))
    return [
        *_clusters_of(owner, present, cloud.region),
        *(one for kind in _FOUND_BY_TAG for one in _of_kind(cloud, owner, kind, _tag_filter(owner.tags))),
        *(one for kind in _KINDS for one in _of_kind(cloud, owner, kind, {})),
        *_roles(cloud, owner, settings),
        *_disks_of_deleted_clusters(cloud, owner, {cluster["cluster_id"] for cluster in present}),
    ]


def _tag_filter(tags: Mapping[str, str]) -> dict[str, str]:
    filters: dict[str, str] = {}
    for number, (key, value) in enumerate(tags.items(), start=1):
        filters |= {f"Tag.{number}.Key": key, f"Tag.{number}.Value": value}
    return filters


def _known_by(owner: Owner, item: Mapping[str, Any], name: str) -> str:
    """Return why an item is the owner's; empty if it is not. Tags decide; names decide only without the owner tags."""
    tags = tags_of(item)
    if any(key in tags for key in OWNER_TAGS):
        return "tags" if owner.tags.items() <= tags.items() else ""
    return "name" if name.startswith(owner.prefix) else ""


def _clusters_of(owner: Owner, present: Iterable[Mapping[str, Any]], region: str) -> Iterator[Leftover]:
    for cluster in present:
        known_by = _known_by(owner, cluster, cluster["name"])
        if known_by and cluster.get("region_id", region) == region:
            yield Leftover(
                kind="ACK cluster",
                id=cluster["cluster_id"],
                name=cluster["name"],
                status=cluster.get("state", ""),
                billed=True,
                known_by=known_by,
            )


def _of_kind(cloud: Cloud, owner: Owner, kind: _Kind, filters: Mapping[str, str]) -> Iterator[Leftover]:
    [(field, source)] = list(kind.listed.same.items())
    for inputs in kind.inputs:
        for item in kind.listed.items(cloud, inputs, **filters):
            name = str(item.get(field) or "")
            if known_by := _known_by(owner, item, name):
                yield Leftover(
                    kind=kind.title,
                    id=kind.listed.id.format_map({**inputs, source: name, **item}),
                    name=name,
                    status=kind.listed.status_of(item),
                    billed=kind.billed,
                    known_by=known_by,
                )


def _roles(cloud: Cloud, owner: Owner, settings: Settings) -> Iterator[Leftover]:
    """Yield the roles of buckets that the settings name: RAM lists them only to those who may see every role."""
    for mount in settings.storage.oss:
        name = owner.prefix + mount.role_name
        for title, token, source in (
            ("RAM role", "alicloud:ram/role:Role", "roleName"),
            ("RAM policy", "alicloud:ram/policy:Policy", "policyName"),
        ):
            for match in candidates(cloud, token, {source: name}):
                yield Leftover(kind=title, id=match.id, name=name, status="", billed=False, known_by="name")


def _disks_of_deleted_clusters(cloud: Cloud, owner: Owner, present: set[str]) -> Iterator[Leftover]:
    for disk in _DISKS.items(cloud, {}, **_tag_filter({_CSI_TAG: _CSI})):
        tags = tags_of(disk)
        cluster = tags.get(_CLUSTER_TAG, "")
        gone = cluster not in present if cluster else disk["Status"] == _UNATTACHED
        if gone and not owner.tags.items() <= tags.items():  # those with tags of the stack were listed as disks
            yield Leftover(
                kind="disk of a claim",
                id=disk["DiskId"],
                name=disk.get("DiskName") or "",
                status=disk["Status"],
                billed=True,
                known_by=f"its cluster {cluster} is gone" if cluster else "it is attached to nothing",
                certain=False,
            )
