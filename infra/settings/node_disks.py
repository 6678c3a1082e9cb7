"""Settings of the cloud disks of a node.

Sizes: Alibaba Cloud ECS, "ESSDs" (the smallest size of each performance level) and "Limits" (system disks).
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from infra.settings.fields import Model

_SMALLEST_ESSD_GIB = {"PL0": 1, "PL1": 20, "PL2": 461, "PL3": 1261}
LARGEST_SYSTEM_DISK_GIB = 2048
_OF_THE_SYSTEM = frozenset(
    {"bin", "boot", "dev", "etc", "lib", "lib64", "proc", "root", "run", "sbin", "sys", "tmp", "usr"}
)
"""Folders of the root (Filesystem Hierarchy Standard 3.0) below which nothing can be hidden from a running node."""
_NEEDED_WHOLE = frozenset({"/opt", "/var"})
"""Folders that a node starts from; a disk can be mounted below them, as ACK does at /var/lib/container."""


class DiskSettings(Model):
    """A cloud disk of every node."""

    category: Literal["cloud_essd", "cloud_auto", "cloud_essd_entry", "cloud_efficiency", "cloud_ssd"] = "cloud_essd"
    """Kind of disk."""
    size_gib: int = Field(default=120, ge=40, le=32767, strict=True)
    """Size in GiB."""
    performance_level: Literal["PL0", "PL1", "PL2", "PL3"] | None = None
    """Level of an ESSD. Default: PL1; PL2 needs 461 GiB, PL3 1261 GiB."""
    encrypted: bool | None = None
    """Whether it is encrypted with the account's default key. Default: the value of `alicloud.protected`."""
    mount_path: str | None = Field(default=None, pattern=r"^/[A-Za-z0-9_./-]+$")
    """Where a data disk is mounted. Default for a pool's first one: where images and containers are stored."""

    @field_validator("mount_path")
    @classmethod
    def _hides_nothing_of_the_system(cls, path: str | None) -> str | None:
        parts = (path or "").split("/")[1:]
        if any(part in {"", ".", ".."} for part in parts):
            raise ValueError("is not a plain path. Fix: write it without '.', '..', '//' and a slash at its end")
        if parts and (parts[0] in _OF_THE_SYSTEM or path in _NEEDED_WHOLE):
            raise ValueError(
                f"would hide what the operating system has at {path}. Fix: use a folder such as /mnt/scratch"
            )
        return path

    @model_validator(mode="after")
    def _level_fits(self) -> Self:
        if self.performance_level is None:
            return self
        if self.category != "cloud_essd":
            raise ValueError(
                f"performance_level = {self.performance_level}: a disk of category {self.category} has no performance"
                " levels. Fix: omit performance_level, or use category cloud_essd"
            )
        smallest = _SMALLEST_ESSD_GIB[self.performance_level]
        if self.size_gib < smallest:
            raise ValueError(
                f"size_gib = {self.size_gib}: an ESSD of level {self.performance_level} has at least {smallest} GiB."
                f" Fix: raise size_gib to {smallest}, or choose a lower level"
            )
        return self
