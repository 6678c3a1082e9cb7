"""Facts about GPU instance types: the one table that pools, pod sizes, quotas and simulated nodes derive from.

Source: Alibaba Cloud ECS instance family documentation (gn7i, gn7e, gn8is, gn8v, ebmgn7e, ebmgn8v).
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.errors import RefusalError, choices


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One instance type as the vendor sells it."""

    name: str
    vcpus: int
    memory_gib: int
    gpus: int
    gpu_memory_gib: int
    """Memory of one GPU."""
    enis: int
    """Elastic network interfaces the instance can hold, the primary one included."""
    ipv4_per_eni: int

    @property
    def shared_eni_pods(self) -> int:
        """Pods that get an address in Terway's shared-ENI mode: (ENIs - 1) x IPv4 addresses per ENI."""
        return (self.enis - 1) * self.ipv4_per_eni


def _row(  # noqa: PLR0913, PLR0917 - one table row
    name: str, vcpus: int, memory: int, gpus: int, gpu_memory: int, enis: int, ipv4: int
) -> InstanceType:
    return InstanceType(
        name=name,
        vcpus=vcpus,
        memory_gib=memory,
        gpus=gpus,
        gpu_memory_gib=gpu_memory,
        enis=enis,
        ipv4_per_eni=ipv4,
    )


# name, vCPUs, memory GiB, GPUs, memory of one GPU GiB, ENIs, IPv4 addresses per ENI
INSTANCE_TYPES: dict[str, InstanceType] = {
    row.name: row
    for row in (
        _row("ecs.gn7i-c8g1.2xlarge", 8, 30, 1, 24, 4, 15),
        _row("ecs.gn7i-c16g1.4xlarge", 16, 60, 1, 24, 8, 30),
        _row("ecs.gn7e-c16g1.4xlarge", 16, 125, 1, 80, 8, 10),
        _row("ecs.gn7e-c16g1.8xlarge", 32, 250, 2, 80, 8, 10),
        _row("ecs.gn7e-c16g1.16xlarge", 64, 500, 4, 80, 8, 10),
        _row("ecs.gn7e-c16g1.32xlarge", 128, 1000, 8, 80, 16, 15),
        _row("ecs.ebmgn7e.32xlarge", 128, 1024, 8, 80, 32, 10),
        _row("ecs.gn8is.2xlarge", 8, 64, 1, 48, 4, 15),
        _row("ecs.gn8is.4xlarge", 16, 128, 1, 48, 8, 30),
        _row("ecs.gn8is-2x.8xlarge", 32, 256, 2, 48, 8, 30),
        _row("ecs.gn8is-4x.16xlarge", 64, 512, 4, 48, 8, 30),
        _row("ecs.gn8is-8x.32xlarge", 128, 1024, 8, 48, 15, 50),
        _row("ecs.gn8v.4xlarge", 16, 96, 1, 96, 8, 30),
        _row("ecs.gn8v-2x.8xlarge", 32, 192, 2, 96, 8, 30),
        _row("ecs.gn8v-4x.8xlarge", 32, 384, 4, 96, 8, 30),
        _row("ecs.gn8v-8x.48xlarge", 192, 1024, 8, 96, 15, 50),
        _row("ecs.ebmgn8v.48xlarge", 192, 1024, 8, 96, 32, 30),
    )
}


def instance_type(name: str) -> InstanceType:
    """Look an instance type up by its name, such as `ecs.gn7i-c8g1.2xlarge`.

    Raises:
        RefusalError: the name is not in the table; the message lists the nearest names.
    """
    found = INSTANCE_TYPES.get(name)
    if found is None:
        raise RefusalError("instance type", name, "is not in infra/instance_types.py", choices(name, INSTANCE_TYPES))
    return found
