"""Costs are sums of known prices, and what is unknown is never taken for nothing."""

from __future__ import annotations

from typing import Any

from infra.cost import ACK_PRO_CNY, PRICES, CostRow, add, hourly_cost, prices_note, stack_prices
from infra.instance_types import instance_type
from infra.prices import Prices
from infra.settings.alicloud import AlicloudSettings
from tests.tables import each_row

SYSTEM = {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 2, "maximum": 3}
A10 = ("ecs.gn7i-c8g1.2xlarge", "ecs.gn7i-c16g1.4xlarge")


def settings(*pools: dict[str, Any], **more: Any) -> AlicloudSettings:
    base = {"region": "cn-hangzhou", "zones": ["cn-hangzhou-i"], "node_pools": [SYSTEM, *pools]}
    return AlicloudSettings.model_validate({**base, **more})


def gpu_pool(**more: Any) -> dict[str, Any]:
    return {"name": "a10", "role": "gpu", "instance_types": list(A10), "minimum": 1, "maximum": 4, **more}


def rows(*pools: dict[str, Any], **more: Any) -> dict[str, CostRow]:
    return {row.what: row for row in hourly_cost(settings(*pools, **more))}


def price(name: str) -> float:
    price_per_hour = instance_type(name).price_cny_per_hour
    assert price_per_hour is not None
    return price_per_hour


def test_a_pool_costs_from_its_fewest_cheapest_to_its_most_expensive_nodes():
    row = rows(gpu_pool())["pool a10"]
    assert (row.fewest, row.most) == (1, 4)
    assert row.lowest == price(A10[0])
    assert row.highest == 4 * price(A10[1])


def test_no_node_costs_nothing_whatever_its_price():
    row = rows(gpu_pool(instance_types=["ecs.gn8is.4xlarge"], minimum=0))["pool a10"]
    assert row.each_lowest is None
    assert row.lowest == 0
    assert row.highest is None


def test_one_type_without_a_price_leaves_its_pool_without_one():
    """The type with a price may be the one that is sold out."""
    with_price, without = "ecs.gn6e-c12g1.12xlarge", "ecs.gn7-c13g1.13xlarge"
    assert rows(gpu_pool(instance_types=[with_price]))["pool a10"].lowest == price(with_price)
    assert rows(gpu_pool(instance_types=[without]))["pool a10"].lowest is None
    mixed = rows(gpu_pool(instance_types=["ecs.c7.large", "ecs.g8i.48xlarge"], role="cpu"))["pool a10"]
    assert (mixed.lowest, mixed.highest) == (None, None)


@each_row(
    ("spot", "more", "highest"),
    [
        ({}, {}, price(A10[1])),
        ({"price_limits": {A10[0]: 3.0, A10[1]: 4.5}}, {}, 4.5),
        ({"price_limits": {A10[0]: 3.0, A10[1]: 4.5}, "on_demand_base": 1}, {}, price(A10[1])),
        ({"price_limits": {A10[0]: 3.0, A10[1]: 4.5}, "on_demand_percentage_above_base": 10}, {}, price(A10[1])),
        (
            {"price_limits": {A10[0]: 3.0, A10[1]: 4.5}, "on_demand_when_short": True},
            {"zone_policy": "COST_OPTIMIZED"},
            price(A10[1]),
        ),
    ],
)
def test_a_spot_price_has_an_upper_bound_alone(spot, more, highest):
    row = rows(gpu_pool(spot=spot, **more), kubernetes={"autoscaler": "cluster-autoscaler"})["pool a10"]
    assert row.each_lowest is None
    assert row.each_highest == highest
    assert row.highest == 4 * highest


def test_prepaid_machines_have_no_price():
    lingjun = {"cluster_id": "c", "group_id": "g"}
    pool = {"name": "lj", "role": "gpu", "minimum": 2, "maximum": 2, "eni": "exclusive", "lingjun": lingjun}
    row = rows(pool)["pool lj"]
    assert (row.lowest, row.highest) == (None, None)
    assert "prepaid" in row.note


def test_the_fee_of_the_control_plane_is_known_for_the_standard_one_alone():
    assert rows()["ACK Pro control plane"].lowest == ACK_PRO_CNY
    assert rows(kubernetes={"edition": "ack.pro.xlarge"})["ACK Pro control plane"].lowest is None


def test_only_what_is_made_has_a_row():
    assert "NAT gateway" in rows()
    assert {"NAT gateway", "address of the NAT gateway"} & set(rows(network={"nat_gateway": False})) == set()
    assert "address of the API server" not in rows()
    assert "address of the API server" in rows(kubernetes={"public_api_server": True})


def test_a_sum_names_what_it_leaves_out():
    known = CostRow(what="known", fewest=1, most=2, each_lowest=1.5, each_highest=2.0)
    unknown = CostRow(what="unknown", fewest=1, most=1, each_lowest=None, each_highest=None)
    later = CostRow(what="later", fewest=0, most=1, each_lowest=None, each_highest=None)
    total = add([known, unknown, later])
    assert (total.lowest, total.highest) == (1.5, 4.0)
    assert total.left_out_of_lowest == ("unknown",)
    assert total.left_out_of_highest == ("unknown", "later")


def test_own_prices_replace_those_of_the_list_one_by_one():
    own = Prices(as_of="2026-11-01", per_hour={A10[1]: 3.0, "ack.pro.xlarge": 2.0})
    environment = settings(gpu_pool(), kubernetes={"edition": "ack.pro.xlarge"})
    own_rows = {row.what: row for row in hourly_cost(environment, stack_prices(own))}
    assert (own_rows["pool a10"].each_lowest, own_rows["pool a10"].each_highest) == (3.0, price(A10[0]))
    assert own_rows["ACK Pro control plane"].lowest == 2.0
    assert own_rows["pool system"].lowest == 2 * price("ecs.g7.xlarge")


def test_in_another_currency_the_list_does_not_count():
    own = Prices(as_of="2026-11-01", currency="EUR", per_hour={A10[1]: 3.0})
    own_rows = {row.what: row for row in hourly_cost(settings(gpu_pool()), stack_prices(own))}
    assert (own_rows["pool a10"].lowest, own_rows["pool system"].lowest) == (None, None)


def test_every_table_says_its_day():
    own = Prices(as_of="2026-11-01", currency="EUR", per_hour={}, source="our contract")
    assert prices_note(stack_prices(None)) == PRICES
    assert prices_note(stack_prices(own)).startswith(
        "Prices of 2026-11-01, in EUR (the stack's settings: our contract)."
    )
