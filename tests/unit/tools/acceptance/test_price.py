"""The statement before a run: known prices add up, unknown ones are named."""

from infra.cost import list_prices
from infra.instance_types import INSTANCE_TYPES
from infra.prices import Prices
from infra.settings.parse import parse_settings
from tools.acceptance import price
from tools.stacks.engine import stack_config


def statement(stack, pools, prices=None):
    return price.statement(parse_settings(stack_config(stack)).alicloud, pools, prices or list_prices())


def test_a_run_pays_for_two_nodes_of_a_pool_that_it_uses_and_for_none_of_others():
    assert "| pool a10 | 0 to 2 |" in statement("dev", ["a10"])
    assert "| pool a10 | 0 |" in statement("dev", [])


def test_bounds_are_those_of_the_hours():
    # dev: two g7.xlarge and ACK Pro; at most two gn7i-c16g1.4xlarge on top
    fewest = 2 * 1.0465 + 0.64
    most = fewest + 2 * INSTANCE_TYPES["ecs.gn7i-c16g1.4xlarge"].price_cny_per_hour
    known = f"**Known: CNY {fewest * price.HOURS:.2f} to {most * price.HOURS:.2f} in {price.HOURS} hours**"
    assert known in statement("dev", ["a10"])


def test_what_has_no_price_is_named():
    said = statement("dev", ["a10"])
    assert "Without a known price, and therefore additional: NAT gateway, address of the NAT gateway, load" in said
    assert "an estimate, not a measurement" in said
    assert "NAS or CPFS: by content or by capacity" in said
    assert "pool train" in statement("prod", ["train"]).partition("Without a known price")[2].partition("\n")[0]


def test_own_prices_are_the_ones_that_are_stated():
    own = Prices(as_of="2026-11-01", currency="EUR", per_hour={"ecs.g7.xlarge": 0.5}, source="our contract")
    said = statement("dev", [], own)
    assert "**Known: EUR 3.00 to 3.00 in 3 hours**" in said
    assert "Prices of 2026-11-01, in EUR (our contract)" in said
    assert "CNY" not in said
