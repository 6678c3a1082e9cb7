"""Facts about ECS instance types: the one table that pools, addresses, quotas and simulated nodes derive from.

Source: Alibaba Cloud ECS documentation of the instance families. Formulas for pods: ACK, "adjust the number of pods on
a node", and Terway's own limits (pkg/aliyun/client/limit.go).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from infra import gpu_models
from infra.errors import RefusalError, choices

EniMode = Literal["shared", "exclusive", "trunk"]
FEWEST_PODS_PER_NODE = 12
"""ACK lets a node join only if more than 11 pods can get an address there."""


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One instance type as the vendor sells it."""

    name: str
    vcpus: int
    memory_gib: int
    gpus: int
    gpu: gpu_models.GpuModel | None
    """Model of the GPUs; None where there are none."""
    network_gbit: float
    """Baseline bandwidth."""
    enis: int
    """Elastic network interfaces the instance can hold, the primary one included."""
    ipv4_per_eni: int
    trunk_enis: int | None = None
    """Member interfaces of a trunk, for pods with a security group or vswitch of their own; None where not known."""
    erdma: bool = False
    """Whether the instance can hold elastic RDMA interfaces."""
    nvlink: bool = False
    """Whether its GPUs reach each other without crossing PCIe."""
    bare_metal: bool = False
    uefi: bool = False
    """Whether it boots UEFI images only."""

    @property
    def gpu_memory_gib(self) -> int:
        """Memory of one GPU; 0 without GPUs."""
        return self.gpu.memory_gib if self.gpu else 0

    @property
    def shared_eni_pods(self) -> int:
        """Pods that get an address in Terway's shared-ENI mode: (ENIs - 1) x IPv4 addresses per ENI."""
        return self.pods("shared")

    @property
    def erdma_enis(self) -> int:
        """Interfaces that Terway leaves to the RDMA controller where pods may ask for RDMA."""
        if not self.erdma or self.enis <= 2:
            return 0
        return 2 if self.enis >= 8 else 1

    def pods(self, mode: EniMode, *, rdma: bool = False) -> int:
        """Pods with an address of their own on one node: what Terway can give out, whatever the kubelet allows.

        Raises:
            RefusalError: the type's trunk capacity is not known.
        """
        if mode == "trunk":
            if self.trunk_enis is None:
                raise RefusalError(
                    "instance type", self.name, "has no known trunk capacity", "use a type with one, or shared ENIs"
                )
            return self.trunk_enis
        interfaces = self.enis - 1 - (self.erdma_enis if rdma else 0)
        return interfaces if mode == "exclusive" else interfaces * self.ipv4_per_eni


def _row(  # noqa: PLR0913, PLR0917 - one table row
    name: str, vcpus: int, memory: int, gpus: int, gbit: float, enis: int, ipv4: int
) -> InstanceType:
    return InstanceType(
        name=f"ecs.{name}",
        vcpus=vcpus,
        memory_gib=memory,
        gpus=gpus,
        gpu=None,
        network_gbit=gbit,
        enis=enis,
        ipv4_per_eni=ipv4,
    )


def _family(
    *rows: InstanceType, gpu: gpu_models.GpuModel, erdma: bool = False, nvlink: bool = False, bare_metal: bool = False
) -> tuple[InstanceType, ...]:
    return tuple(
        replace(row, gpu=gpu, erdma=erdma, nvlink=nvlink and row.gpus > 1, bare_metal=bare_metal) for row in rows
    )


# Each row: name, vCPUs, memory GiB, GPUs, Gbit/s, ENIs, IPv4 addresses per ENI
_ROWS = (
    *_family(
        _row("gn7i-c8g1.2xlarge", 8, 30, 1, 16, 4, 15),
        _row("gn7i-c16g1.4xlarge", 16, 60, 1, 16, 8, 30),
        _row("gn7i-c32g1.8xlarge", 32, 188, 1, 16, 8, 30),
        _row("gn7i-c32g1.16xlarge", 64, 376, 2, 32, 15, 30),
        _row("gn7i-c32g1.32xlarge", 128, 752, 4, 64, 15, 30),
        gpu=gpu_models.A10,
    ),
    *_family(
        _row("gn7e-c16g1.4xlarge", 16, 125, 1, 8, 8, 10),
        _row("gn7e-c16g1.8xlarge", 32, 250, 2, 16, 8, 10),
        _row("gn7e-c16g1.16xlarge", 64, 500, 4, 32, 8, 10),
        _row("gn7e-c16g1.32xlarge", 128, 1000, 8, 64, 16, 15),
        gpu=gpu_models.A100_80,
        nvlink=True,
    ),
    *_family(_row("ebmgn7e.32xlarge", 128, 1024, 8, 64, 32, 10), gpu=gpu_models.A100_80, nvlink=True, bare_metal=True),
    *_family(
        _row("gn8is.2xlarge", 8, 64, 1, 8, 4, 15),
        _row("gn8is.4xlarge", 16, 128, 1, 16, 8, 30),
        _row("gn8is-2x.8xlarge", 32, 256, 2, 32, 8, 30),
        _row("gn8is-4x.16xlarge", 64, 512, 4, 64, 8, 30),
        _row("gn8is-8x.32xlarge", 128, 1024, 8, 100, 15, 50),
        gpu=gpu_models.L20,
        erdma=True,
    ),
    *_family(
        _row("gn8v.4xlarge", 16, 96, 1, 12, 8, 30),
        _row("gn8v-2x.8xlarge", 32, 192, 2, 20, 8, 30),
        _row("gn8v-4x.8xlarge", 32, 384, 4, 20, 8, 30),
        _row("gn8v-8x.48xlarge", 192, 1024, 8, 100, 15, 50),
        gpu=gpu_models.H20,
        erdma=True,
        nvlink=True,
    ),
    *_family(
        _row("ebmgn8v.48xlarge", 192, 1024, 8, 170, 32, 30),
        gpu=gpu_models.H20,
        erdma=True,
        nvlink=True,
        bare_metal=True,
    ),
)

INSTANCE_TYPES: dict[str, InstanceType] = {row.name: row for row in _ROWS}


def instance_type(name: str) -> InstanceType:
    """Look an instance type up by its name, such as `ecs.gn7i-c8g1.2xlarge`.

    Raises:
        RefusalError: the name is not in the table; the message lists the nearest names.
    """
    found = INSTANCE_TYPES.get(name)
    if found is None:
        raise RefusalError("instance type", name, "is not in infra/instance_types.py", choices(name, INSTANCE_TYPES))
    return found
