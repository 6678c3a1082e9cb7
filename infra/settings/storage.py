"""Settings of the volumes."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from infra.settings.fields import Count, DnsLabel, DnsSubdomain, Model, repeated

_CPFS_STEP_GIB = 1200
_ACK_DISK_CLASSES = "alicloud-disk-"
"""How the names of the StorageClasses begin that ACK installs for disks."""


def _not_everybody(network: IPv4Network) -> IPv4Network:
    if network.prefixlen == 0:
        raise ValueError("allows every address to mount the files. Fix: use the address ranges of the nodes")
    return network


def _cpfs_capacity(gib: int) -> int:
    if gib % _CPFS_STEP_GIB:
        nearest = gib + _CPFS_STEP_GIB - gib % _CPFS_STEP_GIB
        raise ValueError(f"is not a multiple of {_CPFS_STEP_GIB}, the step size of CPFS. Fix: use {nearest}")
    return gib


class _FileSystem(Model):
    """What all kinds of file systems share."""

    zone: str | None = None
    """Zone of the file system; all zones of the VPC reach it. Default: the environment's first zone."""


class _NfsFileSystem(_FileSystem):
    """What the kinds with permission groups of their own share."""

    encrypted: bool = True
    """Whether it is encrypted at rest; fixed at creation."""
    client_cidrs: tuple[Annotated[IPv4Network, AfterValidator(_not_everybody)], ...] = ()
    """CIDRs that may mount it. Default: the node vswitches, where the driver mounts it; required if these already
    exist."""

    @field_validator("client_cidrs")
    @classmethod
    def _each_cidr_is_given_once(cls, cidrs: tuple[IPv4Network, ...]) -> tuple[IPv4Network, ...]:
        twice = repeated(map(str, cidrs))
        if twice:
            raise ValueError(f"repeats {twice[0]}. Fix: list each range once")
        return cidrs


class StandardNas(_NfsFileSystem):
    """General-purpose NAS: grows with its content and is billed by it."""

    mode: Literal["standard"] = "standard"
    """Kind of file system."""
    storage_type: Literal["Performance", "Capacity", "Premium"] = "Performance"
    """Speed class; fixed at creation."""
    recycle_bin_days: int | None = Field(default=None, ge=1, le=180, strict=True)
    """How many days deleted files can be restored. Default: the service's."""


class ExtremeNas(_NfsFileSystem):
    """Extreme NAS: low latency, a capacity that is bought and can only grow."""

    mode: Literal["extreme"] = "extreme"
    """Kind of file system."""
    storage_type: Literal["standard", "advance"] = "standard"
    """Speed class; fixed at creation."""
    capacity_gib: int = Field(ge=100, le=262144, strict=True)
    """Size in GiB; throughput grows with it."""
    kms_key_id: str | None = None
    """Your own KMS key for encryption. Default: the service's key."""

    @model_validator(mode="after")
    def _key_encrypts_something(self) -> Self:
        if self.kms_key_id and not self.encrypted:
            raise ValueError(
                f"kms_key_id = {self.kms_key_id!r}: encrypted = False, so nothing would be encrypted with it. Fix: omit"
                " one of them"
            )
        return self


class CpfsFileSystem(_FileSystem):
    """CPFS: a parallel file system, reached by NFS through its protocol service, from anywhere in the VPC."""

    mode: Literal["cpfs"] = "cpfs"
    """Kind of file system."""
    storage_type: Literal["advance_100", "advance_200"] = "advance_100"
    """Throughput in MB/s per TiB; fixed at creation."""
    capacity_gib: Annotated[int, AfterValidator(_cpfs_capacity)] = Field(ge=3600, le=1048576, strict=True)
    """Size in GiB, in steps of 1200; can only grow."""
    export_domain: (
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)*\.cpfs\.aliyuncs\.com$")] | None
    ) = None
    """Domain of the export that the first `up` creates, copied from the console: the provider does not report it. Until
    it is set, volumes wait."""


class ExistingFileSystem(Model):
    """A file system that somebody else owns, reached by NFS: nothing of it is changed or deleted but its files."""

    mode: Literal["existing"] = "existing"
    """Kind of file system."""
    server: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)+$")]
    """Domain of its mount target, which must let the environment's nodes in."""
    root: Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._-]+)*$")] = ""
    """Folder in it that holds the environment's folders, such as `/share/dev`; with Extreme NAS it begins with
    `/share`. Default: its root."""


FileSystemSettings = Annotated[
    StandardNas | ExtremeNas | CpfsFileSystem | ExistingFileSystem, Field(discriminator="mode")
]


class NasClass(Model):
    """A StorageClass that gives each claim a folder of the file system; many pods on many nodes can share it."""

    mode: Literal["nas"] = "nas"
    """Storage behind the volumes."""
    name: DnsSubdomain = "athanor-shared"
    """Name of the StorageClass."""
    path: Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._-]+)+$")] = "/volumes"
    """Folder of the file system in which each claim gets its own folder."""
    archive_on_delete: bool = True
    """Whether the folder of a deleted claim is kept under a different name; false moves it to the recycle bin."""
    reclaim: Literal["Delete", "Retain"] | None = None
    """What happens to a volume when its claim is deleted. Default: Retain in a protected environment, else Delete."""


class DiskClass(Model):
    """A StorageClass that gives each claim an ESSD: fast, for pods of one node."""

    mode: Literal["disk"] = "disk"
    """Storage behind the volumes."""
    name: DnsSubdomain = "athanor-disk"
    """Name of the StorageClass."""
    performance_level: Literal["PL0", "PL1", "PL2", "PL3"] = "PL1"
    """Level; the smallest claims are 1, 20, 461 and 1261 GiB."""
    file_system: Literal["ext4", "xfs"] = "ext4"
    """File system on it."""
    encrypted: bool = True
    """Whether it is encrypted at rest."""
    reclaim: Literal["Delete", "Retain"] | None = None
    """What happens to a volume when its claim is deleted. Default: Retain in a protected environment, else Delete."""


class OssMountSettings(Model):
    """An existing OSS bucket as a claim of the workload namespace."""

    name: Annotated[DnsLabel, Field(max_length=32)]
    """Name of the claim."""
    bucket: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$")]
    """The bucket, in the environment's region."""
    path: Annotated[str, StringConstraints(pattern=r"^(/|(/[^/*?]+)+)$")] = "/"
    """Folder of the bucket."""
    read_only: bool = True
    """Whether pods can only read."""
    client: Literal["ossfs", "ossfs2"] = "ossfs2"
    """FUSE client: `ossfs2` is fast for sequential reads, `ossfs` also supports random writes."""

    @property
    def role_name(self) -> str:
        """What the names of its RAM role and policy end in, and the resources' logical names begin with."""
        return f"oss-{self.name}"

    @model_validator(mode="after")
    def _client_can_write(self) -> Self:
        if not self.read_only and self.client == "ossfs2":
            raise ValueError("client = 'ossfs2': can only read and append. Fix: use ossfs, or set read_only to true")
        return self


StorageClassSettings = Annotated[NasClass | DiskClass, Field(discriminator="mode")]


class StorageSettings(Model):
    """The two volumes every workload sees: /data/data (input) and /data/output (results)."""

    storage_class: DnsSubdomain | None = None
    """StorageClass of the volumes. Default: folders of the node with `make up`, `nas` under alicloud, else the default
    class."""
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = "ReadWriteMany"
    """ReadWriteOnce works only while all pods run on one node (the default class of kind and k3d offers nothing
    else)."""
    data_size_gib: Count = Field(default=5, ge=1, le=65536)
    """Size of the input volume in GiB."""
    output_size_gib: Count = Field(default=20, ge=1, le=65536)
    """Size of the output volume in GiB: checkpoints, logs, exported models."""
    nas: FileSystemSettings | None = None
    """File system of an environment under alicloud. Default: a general-purpose one."""
    classes: tuple[StorageClassSettings, ...] = (NasClass(), DiskClass())
    """StorageClasses to create in an environment under alicloud, for your own claims."""
    oss: tuple[OssMountSettings, ...] = ()
    """Buckets to mount in an environment under alicloud."""

    @property
    def file_system(self) -> StandardNas | ExtremeNas | CpfsFileSystem | ExistingFileSystem:
        """The file system of an environment on Alibaba Cloud."""
        return self.nas or StandardNas()

    @model_validator(mode="after")
    def _shared_volumes_are_on_no_disk(self) -> Self:
        name = self.storage_class or ""
        own_disks = {each.name for each in self.classes if isinstance(each, DiskClass)}
        if self.access_mode == "ReadWriteMany" and (name.startswith(_ACK_DISK_CLASSES) or name in own_disks):
            raise ValueError(
                f"storage_class = {name!r}: a disk can be attached to only one node, but access_mode is ReadWriteMany."
                " Fix: omit storage_class, or set access_mode to ReadWriteOnce"
            )
        return self

    @model_validator(mode="after")
    def _volumes_fit_into_the_file_system(self) -> Self:
        needed_gib = self.data_size_gib + self.output_size_gib
        capacity = self.nas.capacity_gib if isinstance(self.nas, ExtremeNas | CpfsFileSystem) else needed_gib
        if needed_gib > capacity and self.storage_class is None:
            raise ValueError(
                f"nas.capacity_gib = {capacity}: data and output need {needed_gib} GiB. Fix: raise it, or lower"
                " storage.data_size_gib or storage.output_size_gib"
            )
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for key, names in (("classes", [c.name for c in self.classes]), ("oss", [m.name for m in self.oss])):
            twice = repeated(names)
            if twice:
                raise ValueError(f"{key} repeats {', '.join(twice)}. Fix: give each a different name")
        return self

    @model_validator(mode="after")
    def _what_is_not_archived_has_a_recycle_bin(self) -> Self:
        """Without one, the driver keeps the folder of a deleted claim forever."""
        deletes = any(isinstance(each, NasClass) and not each.archive_on_delete for each in self.classes)
        bin_days = self.nas.recycle_bin_days if isinstance(self.nas, StandardNas) else None
        if deletes and bin_days is None:
            raise ValueError(
                "archive_on_delete = False: deleting requires a recycle bin. Fix: set storage.nas to mode standard"
                " with recycle_bin_days, or omit archive_on_delete"
            )
        return self
