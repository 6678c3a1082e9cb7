"""Settings of the volumes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infra.settings.fields import DnsSubdomain, Model


class StorageSettings(Model):
    """The two volumes every workload sees: /data/data (input) and /data/output (results)."""

    storage_class: DnsSubdomain | None = None
    """StorageClass of the volumes. Default: node folders on `make up`'s cluster, else the cluster's default class."""
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = "ReadWriteMany"
    """ReadWriteOnce works only while all pods run on one node (kind, k3d: their default class offers nothing else)."""
    data_size_gib: int = Field(default=5, ge=1, le=65536)
    """Size of the input volume in GiB."""
    output_size_gib: int = Field(default=20, ge=1, le=65536)
    """Size of the output volume in GiB: checkpoints, logs, exported models."""
