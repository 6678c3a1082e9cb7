"""The commands that ask for stock name every machine that an environment may buy."""

import shlex

from infra.settings.parse import parse_settings
from tests.tables import each_row
from tests.unit.infra.alicloud.environment import GPU_POOL, LINGJUN_POOL, pool, settings
from tools.stacks.engine import stack_config
from tools.stacks.stock import main, stock_commands


def commands(environment):
    return [shlex.split(line) for line in stock_commands(environment) if not line.startswith("#")]


@each_row("stack", ["dev", "staging", "prod"])
def test_every_type_of_every_zone_is_asked_for(stack):
    environment = parse_settings(stack_config(stack)).alicloud
    assert environment
    asked = {
        (words[words.index("--ZoneId") + 1], words[words.index("--InstanceType") + 1])
        for words in commands(environment)
        if "--ZoneId" in words
    }
    assert asked == {
        (zone, name)
        for pool in environment.node_pools
        for zone in environment.zones_of(pool)
        for name in pool.instance_types
    }


def test_a_command_is_complete():
    lines = stock_commands(settings(pool(zones=["cn-hangzhou-j"], spot={})))
    assert lines[-2] == "# a10: 0 to 8 nodes"
    assert lines[-1] == (
        "aliyun ecs DescribeAvailableResource --RegionId cn-hangzhou --ZoneId cn-hangzhou-j"
        " --DestinationResource InstanceType --IoOptimized optimized --InstanceType ecs.gn7i-c16g1.4xlarge"
        " --InstanceChargeType PostPaid --SpotStrategy SpotAsPriceGo"
    )
    assert not any("SpotStrategy" in words for line in commands(settings(GPU_POOL)) for words in line)


def test_prepaid_machines_have_no_stock():
    assert not any("lingjun" in line for line in stock_commands(settings(LINGJUN_POOL)))


def test_placement_is_asked_for_where_it_is_wanted():
    close = pool(instance_types=["ecs.gn8v.4xlarge"], low_latency=True, zones=["cn-hangzhou-j"])
    assert stock_commands(settings(close))[-1].endswith("--RegionId cn-hangzhou --Strategy LowLatency")


def test_a_stack_that_buys_nothing_says_so(capsys):
    assert main(["local"]) == 1
    assert "no environment on Alibaba Cloud" in capsys.readouterr().err
    assert main(["prod"]) == 0
    assert "ecs.gn8v-8x.48xlarge" in capsys.readouterr().out
