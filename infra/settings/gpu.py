"""Settings of GPUs: driver, sharing, and what runs on GPU nodes of a cluster that is not ACK."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from infra.settings.fields import Model


class TimeSlicing(Model):
    """Several pods take turns on one GPU; no memory isolation. Not on ACK."""

    mode: Literal["time_slicing"] = "time_slicing"
    """Kind of sharing."""
    replicas: int = Field(ge=2, le=48, strict=True)
    """Pods per GPU."""


class Mps(Model):
    """Several pods run at once on one GPU through NVIDIA's Multi-Process Service; equal memory shares. Not on ACK."""

    mode: Literal["mps"] = "mps"
    """Kind of sharing."""
    replicas: int = Field(ge=2, le=48, strict=True)
    """Pods per GPU."""


class Mig(Model):
    """The GPU is split in hardware into equal instances. Not on ACK."""

    mode: Literal["mig"] = "mig"
    """Kind of sharing."""
    profile: Annotated[str, StringConstraints(pattern=r"^[1-7]g\.[1-9][0-9]{0,2}gb$")]
    """MIG profile of every instance, such as 1g.10gb; the nodes must already be split so."""


class Cgpu(Model):
    """Alibaba Cloud's shared GPUs: pods ask for GiB of GPU memory and the ACK scheduler picks the card. ACK only."""

    mode: Literal["cgpu"] = "cgpu"
    """Kind of sharing."""
    isolation: Literal["memory", "memory_and_cores", "mps", "none"] = "memory"
    """What keeps pods apart: cGPU, for memory or also compute; MPS (ACK's marketplace has its daemon); or nothing."""
    placement: Literal["binpack", "spread"] = "binpack"
    """Whether pods fill one card of a node before the next, or spread over its cards."""


Sharing = Annotated[TimeSlicing | Mps | Mig | Cgpu, Field(discriminator="mode")]


class GpuSettings(Model):
    """The GPUs of a pool or of a cluster."""

    driver_version: str | None = None
    """NVIDIA driver of the nodes, such as 550.144.03; fixed at a node's birth. Default: ACK's."""
    sharing: Sharing | None = None
    """How pods share one GPU. Default: a pod gets whole GPUs."""


class ClusterGpuSettings(Model):
    """What runs on the GPU nodes beside the workloads."""

    device_plugin: bool = False
    """Whether to install NVIDIA's device plugin on nodes labelled nvidia.com/gpu.present=true; ACK brings its own."""
    sharing: Annotated[TimeSlicing | Mps | Mig, Field(discriminator="mode")] | None = None
    """How that plugin shares each GPU. Default: a pod gets whole GPUs."""
    dcgm_exporter: bool = False
    """Whether to install NVIDIA's exporter of GPU metrics; on ACK only where its arms-prometheus add-on is absent."""

    @model_validator(mode="after")
    def _sharing_has_a_plugin(self) -> Self:
        if self.sharing and not self.device_plugin:
            raise ValueError(
                f"sharing.mode = {self.sharing.mode!r}: the device plugin shares GPUs, and device_plugin is false."
                " Fix: set gpu.device_plugin to true"
            )
        return self
