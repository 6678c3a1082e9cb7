"""Print commands that ask Alibaba Cloud for the stock of a stack's pools: `python -m tools.stacks.stock prod`."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from infra.settings.parse import parse_settings
from tools.stacks.engine import stack_config
from tools.terminal import status_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.node_pools import NodePoolSettings


@dataclass(frozen=True, kw_only=True)
class StockQuery:
    """The question whether a zone has a pool's instance type in stock."""

    pool: NodePoolSettings
    zone: str
    instance_type: str

    @property
    def parameters(self) -> dict[str, str]:
        """The request's parameters, except for the region. Source: ECS, DescribeAvailableResource."""
        return {
            "ZoneId": self.zone,
            "DestinationResource": "InstanceType",
            "IoOptimized": "optimized",
            "InstanceType": self.instance_type,
            "InstanceChargeType": "PostPaid",
            **({"SpotStrategy": "SpotAsPriceGo"} if self.pool.spot else {}),
        }


def stock_queries(settings: AlicloudSettings) -> list[StockQuery]:
    """Return a query for each zone and instance type of each pool; Lingjun machines are prepaid, and have no stock."""
    return [
        StockQuery(pool=pool, zone=zone, instance_type=name)
        for pool in settings.node_pools
        if not pool.lingjun
        for zone in settings.zones_of(pool)
        for name in pool.instance_types
    ]


def stock_commands(settings: AlicloudSettings) -> list[str]:
    """Return shell lines: a comment for each pool, then a command for each of its zones and instance types."""
    lines: list[str] = []
    for pool, queries in groupby(stock_queries(settings), key=lambda query: query.pool):
        lines.append(f"# {pool.name}: {pool.minimum} to {pool.maximum} nodes")
        lines += [_command(settings.region, query) for query in queries]
    if any(pool.low_latency for pool in settings.node_pools):
        lines += ["# families that support low-latency deployment sets", _close_families(settings)]
    return lines


def _command(region: str, query: StockQuery) -> str:
    flags = [word for name, value in query.parameters.items() for word in (f"--{name}", value)]
    return shlex.join(["aliyun", "ecs", "DescribeAvailableResource", "--RegionId", region, *flags])


def _close_families(settings: AlicloudSettings) -> str:
    operation = "DescribeDeploymentSetSupportedInstanceTypeFamily"
    return shlex.join(["aliyun", "ecs", operation, "--RegionId", settings.region, "--Strategy", "LowLatency"])


def main(words: Sequence[str]) -> int:
    """Print the commands of one stack; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.stacks.stock", description=__doc__)
    parser.add_argument("stack", help="such as prod")
    stack: str = parser.parse_args(words).stack
    settings = parse_settings(stack_config(stack)).alicloud
    if settings is None:
        sys.stderr.write(f"{stack} describes no environment on Alibaba Cloud\n")
        return 1
    sys.stdout.write("\n".join(stock_commands(settings)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(status_of(lambda: main(sys.argv[1:])))
