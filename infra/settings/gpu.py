"""Settings of GPUs: driver and sharing."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.settings.fields import Model


class TimeSlicing(Model):
    """Several pods take turns on one GPU; no memory isolation."""

    mode: Literal["time_slicing"] = "time_slicing"
    """Kind of sharing."""
    replicas: int = Field(ge=2, le=48, strict=True)
    """Pods per GPU."""


class Mps(Model):
    """Several pods run at once on one GPU through NVIDIA's Multi-Process Service; equal memory shares."""

    mode: Literal["mps"] = "mps"
    """Kind of sharing."""
    replicas: int = Field(ge=2, le=48, strict=True)
    """Pods per GPU."""


class Mig(Model):
    """The GPU is split in hardware into equal instances."""

    mode: Literal["mig"] = "mig"
    """Kind of sharing."""
    profile: str
    """MIG profile, such as 1g.10gb."""


class Cgpu(Model):
    """Alibaba Cloud's cGPU: pods ask for GiB of GPU memory; isolated by a kernel module. ACK only."""

    mode: Literal["cgpu"] = "cgpu"
    """Kind of sharing."""
    cores: bool = False
    """Whether pods can also ask for a percentage of the GPU's compute."""


Sharing = Annotated[TimeSlicing | Mps | Mig | Cgpu, Field(discriminator="mode")]


class GpuSettings(Model):
    """The GPUs of a pool or of a cluster."""

    driver_version: str | None = None
    """NVIDIA driver of the nodes, such as 550.144.03; fixed at a node's birth. Default: ACK's."""
    sharing: Sharing | None = None
    """How pods share one GPU. Default: a pod gets whole GPUs."""
