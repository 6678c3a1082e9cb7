"""Settings of GPUs: driver, sharing, and the components on GPU nodes of clusters other than ACK."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from infra.cuda import check_driver
from infra.errors import RefusalError
from infra.settings.fields import NUMBER_AS_TEXT, DnsLabel, Model


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
    """MIG profile of every instance, such as 1g.10gb; the nodes must already be partitioned this way."""


class Cgpu(Model):
    """Alibaba Cloud's shared GPUs: pods ask for GiB of GPU memory and the ACK scheduler picks the card. ACK only."""

    mode: Literal["cgpu"] = "cgpu"
    """Kind of sharing."""
    isolation: Literal["memory", "memory_and_cores", "mps", "none"] = "memory"
    """What isolates pods: cGPU, for memory or also compute; MPS (ACK's marketplace has its daemon); or nothing."""
    placement: Literal["binpack", "spread"] = "binpack"
    """Whether pods fill one card of a node before the next, or are spread over its cards."""


Sharing = Annotated[TimeSlicing | Mps | Mig | Cgpu, Field(discriminator="mode")]
_NOT_ON_ACK = {
    "time_slicing": "ACK's own device plugin does not support time slicing",
    "mps": "ACK's MPS shares a GPU by GiB of memory, not by replicas",
    "mig": "ACK has no managed way to split the GPUs of a node pool into MIG instances",
}


def sharing_on_ack(sharing: Sharing | None) -> Cgpu | None:
    """Return how ACK shares the GPUs of a node pool.

    Raises:
        RefusalError: ACK does not manage this kind of sharing.
    """
    check_sharing_on_ack(sharing)
    return sharing if isinstance(sharing, Cgpu) else None


def check_sharing_on_ack(sharing: Sharing | None) -> None:
    """Refuse what ACK cannot do with the GPUs of a node pool.

    Raises:
        RefusalError: ACK does not manage this kind of sharing.
    """
    if sharing is None or isinstance(sharing, Cgpu):
        return
    isolation = "mps" if isinstance(sharing, Mps) else "memory"
    raise RefusalError(
        "gpu.sharing.mode",
        sharing.mode,
        _NOT_ON_ACK[sharing.mode],
        f"use {{mode: cgpu, isolation: {isolation}}}, or omit sharing for whole GPUs",
    )


class GpuSettings(Model):
    """The GPUs of a pool or of a cluster."""

    driver_version: Annotated[str, NUMBER_AS_TEXT, AfterValidator(check_driver)] | None = None
    """NVIDIA driver of the nodes, one that ACK offers (infra/cuda.py); fixed when a node is created. Default: the
    latest of them, which supports the CUDA in our images."""
    sharing: Sharing | None = None
    """How pods share one GPU. Default: a pod gets whole GPUs."""


class ClusterGpuSettings(Model):
    """What runs on the GPU nodes in addition to the workloads."""

    device_plugin: bool = False
    """Whether to install NVIDIA's device plugin on nodes labelled nvidia.com/gpu.present=true; ACK brings its own."""
    sharing: Annotated[TimeSlicing | Mps | Mig, Field(discriminator="mode")] | None = None
    """How the device plugin shares each GPU. Default: a pod gets whole GPUs."""
    device_list: Literal["cdi-cri", "cdi-annotations", "volume-mounts", "envvar"] = "cdi-cri"
    """How the device plugin passes a container's GPUs to the container runtime. `cdi-cri` needs containerd 2.0, or 1.7
    with enable_cdi; `volume-mounts` a container toolkit that accepts them. With `envvar` any pod can name any GPU."""
    runtime_class: DnsLabel | None = None
    """RuntimeClass of GPU pods, the device plugin and the exporter, normally `nvidia`. Default: none; NVIDIA's runtime
    is the nodes' default, as on ACK."""
    dcgm_exporter: bool = False
    """Whether to install NVIDIA's exporter of GPU metrics; on ACK only where its arms-prometheus add-on is absent."""

    @model_validator(mode="after")
    def _sharing_has_a_plugin(self) -> Self:
        if "device_list" in self.model_fields_set and not self.device_plugin:
            raise ValueError(
                f"device_list = {self.device_list!r}: configures the device plugin, but device_plugin is false. Fix:"
                " set gpu.device_plugin to true, or omit device_list"
            )
        if self.sharing and not self.device_plugin:
            raise ValueError(
                f"sharing.mode = {self.sharing.mode!r}: the device plugin does the sharing, but device_plugin is false."
                " Fix: set gpu.device_plugin to true"
            )
        return self
