"""The table of ECS instance types, from which pools, addresses, quotas, simulated nodes and cost derive.

Sources: Alibaba Cloud, "GPU-accelerated compute-optimized and vGPU-accelerated instance families" and "Overview of
instance families" (ECS user guide). Formulas for pods: Alibaba Cloud, "Work with Terway" (ACK user guide), and Terway's
own limits (pkg/aliyun/client/limit.go).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from infra import gpu_models
from infra.errors import RefusalError, choices

EniMode = Literal["shared", "exclusive"]
RdmaKind = Literal["none", "erdma", "lingjun"]
"""`erdma`: elastic RDMA interfaces of ECS; `lingjun`: RoCE cards of Lingjun machines, which are not ECS types."""
FEWEST_PODS: dict[EniMode, int] = {"shared": 12, "exclusive": 7}
"""ACK lets a node join only if more than 11 pods (shared ENIs) or 6 pods (exclusive ENIs) can get an address there."""


LOW_LATENCY_FAMILIES = frozenset({"c7", "ebmgn8v", "g7", "g8i", "gn8v"})
"""Families of this table that deployment sets of the strategy LowLatency take.

Source: ECS, "Deployment sets", table of strategies and families, as of 2026; its only other GPU family is ebmgn7ex.
ACK's "Best practices for associating deployment sets with node pools" repeats an older and shorter list, without GPUs,
and names DescribeDeploymentSetSupportedInstanceTypeFamily of ECS as what decides.
"""


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One instance type as the vendor sells it."""

    name: str
    vcpus: int
    memory_gib: int
    gpus: int
    network_gbit: float
    """Baseline bandwidth in Gbit/s, of all network cards together."""
    enis: int
    """Elastic network interfaces the instance can hold, the primary one included."""
    ipv4_per_eni: int
    price_cny_per_hour: float | None
    """List price on demand; None where none is published. See `PRICES_AS_OF`."""
    gpu: gpu_models.GpuModel | None = None
    """Model of the GPUs; None where there are none."""
    rdma: RdmaKind = "none"
    nvlink: bool = False
    """Whether its GPUs reach each other without crossing PCIe."""
    uefi: bool = False
    """Whether it boots UEFI images only."""

    @property
    def family(self) -> str:
        """Its family, such as gn8v of ecs.gn8v-8x.48xlarge."""
        return self.name.removeprefix("ecs.").partition(".")[0].partition("-")[0]

    @property
    def low_latency(self) -> bool:
        """Whether a deployment set places such instances close together."""
        return self.family in LOW_LATENCY_FAMILIES

    @property
    def bare_metal(self) -> bool:
        """Whether it is a whole machine: such a family is called ebm…."""
        return self.name.startswith("ecs.ebm")

    @property
    def gpu_memory_gib(self) -> int:
        """Memory of one GPU; 0 without GPUs."""
        return self.gpu.memory_gib if self.gpu else 0

    @property
    def shared_eni_pods(self) -> int:
        """Pods that get an address in Terway's shared-ENI mode: (ENIs - 1) x IPv4 addresses per ENI."""
        return self.pods("shared")

    @property
    def rdma_enis(self) -> int:
        """Interfaces that Terway leaves to the RDMA controller where pods may ask for RDMA."""
        if self.rdma != "erdma" or self.enis <= 2:
            return 0
        return 2 if self.enis >= 8 else 1

    def pods(self, mode: EniMode, *, rdma: bool = False) -> int:
        """Pods with an address of their own on one node, whatever the kubelet's limit.

        Shared: (ENIs - 1) x IPv4 addresses per ENI; exclusive: ENIs - 1; with RDMA on the pool, less `rdma_enis`. How
        many member interfaces a trunk holds is published by no document, only by each account's API; it is left out.
        """
        interfaces = self.enis - 1 - (self.rdma_enis if rdma else 0)
        return interfaces if mode == "exclusive" else interfaces * self.ipv4_per_eni

    def check_can_join(self, mode: EniMode, *, rdma: bool = False) -> None:
        """Refuse a type whose nodes have too few pod addresses; the arguments are those of `pods`.

        Raises:
            RefusalError: ACK would not let a node of this type join.
        """
        pods = self.pods(mode, rdma=rdma)
        if pods < FEWEST_PODS[mode]:
            raise RefusalError(
                "instance type",
                self.name,
                f"gives {pods} pods an address with {mode} ENIs{' in addition to RDMA' if rdma else ''}, but a node"
                f" needs at least {FEWEST_PODS[mode]} to join",
                self._with_room(mode, rdma=rdma),
            )

    def _with_room(self, mode: EniMode, *, rdma: bool) -> str:
        enough = [
            row
            for row in INSTANCE_TYPES.values()
            if row.gpus == self.gpus
            and row.rdma == (self.rdma if rdma else row.rdma)
            and row.pods(mode, rdma=rdma) >= FEWEST_PODS[mode]
        ]
        if not enough:
            return "use shared ENIs, or a type with more interfaces"
        nearest = min(enough, key=lambda row: (row.gpu != self.gpu, row.bare_metal != self.bare_metal, row.vcpus))
        return f"choose a type with more interfaces, such as {nearest.name}"


def _row(  # noqa: PLR0913, PLR0917 - one table row
    name: str, vcpus: int, memory: int, gpus: int, gbit: float, enis: int, ipv4: int, price: float | None = None
) -> InstanceType:
    return InstanceType(
        name=f"ecs.{name}",
        vcpus=vcpus,
        memory_gib=memory,
        gpus=gpus,
        network_gbit=gbit,
        enis=enis,
        ipv4_per_eni=ipv4,
        price_cny_per_hour=price,
    )


def _gpu_family(
    gpu: gpu_models.GpuModel, *rows: InstanceType, rdma: RdmaKind = "none", nvlink: bool = False, uefi: bool = False
) -> tuple[InstanceType, ...]:
    """Give rows what they share: one GPU has no other to reach, and only bare-metal types are bound to UEFI."""
    return tuple(
        replace(row, gpu=gpu, rdma=rdma, nvlink=nvlink and row.gpus > 1, uefi=uefi and row.bare_metal) for row in rows
    )


PRICES_AS_OF = "2024-10-09"
"""Prices: Alibaba Cloud's list (aliyun.com/price/ecs; Linux, pay-as-you-go) as github.com/cloudpilot-ai/priceserver
kept it on that day; the commonest price of the mainland regions. Other regions and later days differ: an estimate."""

# Each row: name, vCPUs, memory GiB, GPUs, Gbit/s, ENIs, IPv4 addresses per ENI, CNY per hour
_ROWS = (
    _row("g7.large", 2, 8, 0, 2, 3, 6, 0.52325),
    _row("g7.xlarge", 4, 16, 0, 3, 4, 15, 1.0465),
    _row("g7.2xlarge", 8, 32, 0, 5, 4, 15, 2.093),
    _row("g7.3xlarge", 12, 48, 0, 8, 8, 15, 3.1395),
    _row("g7.4xlarge", 16, 64, 0, 10, 8, 30, 4.186),
    _row("g7.6xlarge", 24, 96, 0, 12, 8, 30, 6.279),
    _row("g7.8xlarge", 32, 128, 0, 16, 8, 30, 8.372),
    _row("g7.16xlarge", 64, 256, 0, 32, 8, 30, 16.744),
    _row("g7.32xlarge", 128, 512, 0, 64, 15, 30, 33.488),
    _row("g8i.large", 2, 8, 0, 2.5, 3, 6, 0.52325),
    _row("g8i.xlarge", 4, 16, 0, 4, 4, 15, 1.0465),
    _row("g8i.2xlarge", 8, 32, 0, 6, 4, 15, 2.093),
    _row("g8i.3xlarge", 12, 48, 0, 10, 8, 15, 3.1395),
    _row("g8i.4xlarge", 16, 64, 0, 12, 8, 30, 4.186),
    _row("g8i.6xlarge", 24, 96, 0, 15, 8, 30, 6.279),
    _row("g8i.8xlarge", 32, 128, 0, 20, 8, 30, 8.372),
    _row("g8i.12xlarge", 48, 192, 0, 25, 8, 30, 12.558),
    _row("g8i.16xlarge", 64, 256, 0, 32, 8, 30, 16.744),
    _row("g8i.24xlarge", 96, 384, 0, 50, 15, 30, 25.116),
    _row("g8i.48xlarge", 192, 1024, 0, 100, 15, 50),
    _row("c7.large", 2, 4, 0, 2, 3, 6, 0.407698),
    _row("c7.xlarge", 4, 8, 0, 3, 4, 15, 0.815397),
    _row("c7.2xlarge", 8, 16, 0, 5, 4, 15, 1.630795),
    _row("c7.3xlarge", 12, 24, 0, 8, 8, 15, 2.446193),
    _row("c7.4xlarge", 16, 32, 0, 10, 8, 30, 3.261591),
    _row("c7.6xlarge", 24, 48, 0, 12, 8, 30, 4.892387),
    _row("c7.8xlarge", 32, 64, 0, 16, 8, 30, 6.523183),
    _row("c7.16xlarge", 64, 128, 0, 32, 8, 30, 13.046366),
    _row("c7.32xlarge", 128, 256, 0, 64, 15, 30, 26.092733),
    *_gpu_family(
        gpu_models.T4,
        _row("gn6i-c4g1.xlarge", 4, 15, 1, 4, 2, 10, 11.63),
        _row("gn6i-c8g1.2xlarge", 8, 31, 1, 5, 2, 10, 14.0),
        _row("gn6i-c16g1.4xlarge", 16, 62, 1, 6, 3, 10, 16.41),
        _row("gn6i-c24g1.6xlarge", 24, 93, 1, 7.5, 4, 10, 17.19),
        _row("gn6i-c40g1.10xlarge", 40, 155, 1, 10, 10, 10, 14.819),
        _row("gn6i-c24g1.12xlarge", 48, 186, 2, 15, 6, 10, 34.38),
        _row("gn6i-c24g1.24xlarge", 96, 372, 4, 30, 8, 10, 68.75),
        _row("ebmgn6i.24xlarge", 96, 384, 4, 30, 32, 10, 68.75),
    ),
    *_gpu_family(
        gpu_models.V100_16,
        _row("gn6v-c8g1.2xlarge", 8, 32, 1, 2.5, 4, 10, 26.46),
        _row("gn6v-c8g1.4xlarge", 16, 64, 2, 5, 8, 20),
        _row("gn6v-c8g1.8xlarge", 32, 128, 4, 10, 8, 20, 105.84),
        _row("gn6v-c8g1.16xlarge", 64, 256, 8, 20, 8, 20, 211.68),
        _row("gn6v-c10g1.20xlarge", 82, 336, 8, 35, 8, 20, 219.64),
        _row("ebmgn6v.24xlarge", 96, 384, 8, 30, 32, 10, 177.84375),
        nvlink=True,
    ),
    *_gpu_family(
        gpu_models.V100_32,
        _row("gn6e-c12g1.3xlarge", 12, 92, 1, 5, 6, 10, 19.739),
        _row("gn6e-c12g1.6xlarge", 24, 184, 2, 8, 8, 20),
        _row("gn6e-c12g1.12xlarge", 48, 368, 4, 16, 8, 20, 78.958),
        _row("gn6e-c12g1.24xlarge", 96, 736, 8, 32, 8, 20, 157.916),
        _row("ebmgn6e.24xlarge", 96, 768, 8, 32, 15, 10),
        nvlink=True,
    ),
    *_gpu_family(
        gpu_models.A100_40,
        _row("gn7-c12g1.3xlarge", 12, 94, 1, 4, 8, 10),
        _row("gn7-c13g1.13xlarge", 52, 378, 4, 16, 8, 30),
        _row("gn7-c13g1.26xlarge", 104, 756, 8, 30, 15, 10),
        _row("ebmgn7.26xlarge", 104, 768, 8, 30, 15, 10),
        nvlink=True,
    ),
    *_gpu_family(
        gpu_models.A30,
        _row("gn7s-c8g1.2xlarge", 8, 60, 1, 16, 4, 5),
        _row("gn7s-c16g1.4xlarge", 16, 120, 1, 16, 8, 5),
        _row("gn7s-c32g1.8xlarge", 32, 250, 1, 16, 8, 5),
        _row("gn7s-c32g1.16xlarge", 64, 500, 2, 32, 15, 5),
        _row("gn7s-c32g1.32xlarge", 128, 1000, 4, 64, 15, 10),
        _row("gn7s-c48g1.12xlarge", 48, 380, 1, 16, 8, 8),
        _row("gn7s-c56g1.14xlarge", 56, 440, 1, 16, 8, 8),
    ),
    *_gpu_family(
        gpu_models.A10,
        _row("gn7i-c8g1.2xlarge", 8, 30, 1, 16, 4, 15, 9.5326),
        _row("gn7i-c16g1.4xlarge", 16, 60, 1, 16, 8, 30, 10.0934),
        _row("gn7i-c32g1.8xlarge", 32, 188, 1, 16, 8, 30, 13.3083),
        _row("gn7i-c32g1.16xlarge", 64, 376, 2, 32, 15, 30, 26.6166),
        _row("gn7i-c32g1.32xlarge", 128, 752, 4, 64, 15, 30, 53.2331),
        _row("gn7i-c48g1.12xlarge", 48, 310, 1, 16, 8, 30, 17.944),
        _row("gn7i-c56g1.14xlarge", 56, 346, 1, 16, 8, 30, 21.533),
        _row("gn7i-2x.8xlarge", 32, 128, 2, 16, 8, 30, 20.1867),
        _row("gn7i-4x.8xlarge", 32, 128, 4, 32, 8, 30, 38.1305),
        _row("gn7i-4x.16xlarge", 64, 256, 4, 64, 8, 30, 40.3734),
        _row("gn7i-8x.16xlarge", 64, 256, 8, 32, 8, 30, 76.2609),
        _row("gn7i-8x.32xlarge", 128, 512, 8, 64, 16, 30, 80.7469),
        _row("ebmgn7i.32xlarge", 128, 768, 4, 64, 32, 10),
    ),
    *_gpu_family(
        gpu_models.A100_80,
        _row("gn7e-c16g1.4xlarge", 16, 125, 1, 8, 8, 10, 34.742),
        _row("gn7e-c16g1.8xlarge", 32, 250, 2, 16, 8, 10, 69.483),
        _row("gn7e-c16g1.16xlarge", 64, 500, 4, 32, 8, 10, 138.967),
        _row("gn7e-c16g1.32xlarge", 128, 1000, 8, 64, 16, 15, 277.933),
        _row("ebmgn7e.32xlarge", 128, 1024, 8, 64, 32, 10, 277.933),
        nvlink=True,
    ),
    *_gpu_family(
        gpu_models.L20,
        _row("gn8is.2xlarge", 8, 64, 1, 8, 4, 15),
        _row("gn8is.4xlarge", 16, 128, 1, 16, 8, 30),
        _row("gn8is-2x.8xlarge", 32, 256, 2, 32, 8, 30),
        _row("gn8is-4x.16xlarge", 64, 512, 4, 64, 8, 30),
        _row("gn8is-8x.32xlarge", 128, 1024, 8, 100, 15, 50),
        _row("ebmgn8is.32xlarge", 128, 1024, 8, 160, 32, 30),
        _row("ebmgn8ia.64xlarge", 256, 1536, 4, 160, 32, 30),
        rdma="erdma",
        uefi=True,
    ),
    *_gpu_family(
        gpu_models.H20,
        _row("gn8v.4xlarge", 16, 96, 1, 12, 8, 30),
        _row("gn8v.6xlarge", 24, 128, 1, 15, 8, 30),
        _row("gn8v-2x.8xlarge", 32, 192, 2, 20, 8, 30),
        _row("gn8v-4x.8xlarge", 32, 384, 4, 20, 8, 30),
        _row("gn8v-2x.12xlarge", 48, 256, 2, 25, 8, 30),
        _row("gn8v-8x.16xlarge", 64, 768, 8, 32, 8, 30),
        _row("gn8v-4x.24xlarge", 96, 512, 4, 50, 15, 30),
        _row("gn8v-8x.48xlarge", 192, 1024, 8, 100, 15, 50),
        _row("ebmgn8v.48xlarge", 192, 1024, 8, 170, 32, 30),
        rdma="erdma",
        nvlink=True,
        uefi=True,
    ),
    *_gpu_family(
        gpu_models.BLACKWELL_48,
        _row("ebmgn9g.64xlarge", 256, 2304, 8, 360, 38, 30),
        rdma="erdma",
        uefi=True,
    ),
    *_gpu_family(
        gpu_models.BLACKWELL_72,
        _row("ebmgn9gc.64xlarge", 256, 1536, 8, 360, 38, 30),
        _row("ebmgn9ge.64xlarge", 256, 2304, 8, 360, 38, 30),
        rdma="erdma",
        uefi=True,
    ),
)

INSTANCE_TYPES: dict[str, InstanceType] = {row.name: row for row in _ROWS}


def instance_type(name: str) -> InstanceType:
    """Look an instance type up by its name, such as `ecs.gn7i-c8g1.2xlarge`.

    Raises:
        RefusalError: the name is not in the table; the message lists the nearest names.
    """
    row = INSTANCE_TYPES.get(name)
    if row is None:
        raise RefusalError("instance type", name, "is not in infra/instance_types.py", choices(name, INSTANCE_TYPES))
    return row
