"""Nodes, GPUs and money before and after; what is unknown is named and never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from athanor.review.capacity import pool_of
from athanor.review.prices import list_prices, read_prices
from athanor.review.reading import read_preview
from athanor.review.stack_review import stack_review
from infra.errors import RefusalError
from infra.instance_types import PRICES_AS_OF, instance_type
from tests.unit.athanor.review.digests import CLUSTER, POOL, UNKNOWN, digest, pool, reported, reviewed, step

if TYPE_CHECKING:
    from pathlib import Path

A10, LARGE = "ecs.gn7i-c8g1.2xlarge", "ecs.gn7i-c32g1.8xlarge"
WITHOUT_A_PRICE = "ecs.gn7-c13g1.13xlarge"


def price(name: str) -> float:
    price_per_hour = instance_type(name).price_cny_per_hour
    assert price_per_hour is not None
    return price_per_hour


def change(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    operation = "create" if old is None else "delete" if new is None else "update"
    return step(operation, POOL, "a10", old, new)


def test_a_larger_pool_costs_more_at_the_maximum() -> None:
    capacity = reviewed(change(pool(1, 4), pool(1, 8))).capacity
    assert capacity.nodes() == (0, 4)
    assert capacity.gpus() == (0, 4)
    assert capacity.after.lowest == capacity.before.lowest == price(A10)
    assert capacity.after.highest - capacity.before.highest == pytest.approx(4 * price(A10))
    text = reported(change(pool(1, 4), pool(1, 8)))
    assert f"+{4 * price(A10) * 730:,.2f} a month" in text
    assert f"Prices of {PRICES_AS_OF}" in text


def test_created_and_deleted_pools_count_whole() -> None:
    assert reviewed(change(None, pool(2, 3))).capacity.nodes() == (2, 3)
    assert reviewed(change(pool(2, 3), None)).capacity.nodes() == (-2, -3)


def test_another_type_changes_the_price_alone() -> None:
    capacity = reviewed(change(pool(0, 2, A10), pool(0, 2, LARGE))).capacity
    assert (capacity.nodes(), capacity.gpus()) == ((0, 0), (0, 0))
    assert capacity.after.highest - capacity.before.highest == pytest.approx(2 * (price(LARGE) - price(A10)))


def test_a_fixed_size_is_the_desired_one() -> None:
    fixed = {"instanceTypes": [A10], "scalingConfig": {"enable": False, "minSize": 1, "maxSize": 9}, "desiredSize": "3"}
    fixed_pool = pool_of(fixed)
    assert fixed_pool
    assert (fixed_pool.fewest, fixed_pool.most) == (3, 3)


@pytest.mark.parametrize(
    "inputs",
    [{}, {"desiredSize": UNKNOWN}, {"scalingConfig": UNKNOWN}, {"scalingConfig": {"minSize": {}, "maxSize": []}}],
)
def test_a_size_that_is_not_known_yet_is_none(inputs: dict[str, Any]) -> None:
    assert pool_of(inputs) is None
    reported(change(pool(0, 1), {**inputs, "spotStrategy": {}, "instanceTypes": {}}))


def test_what_has_no_price_is_named() -> None:
    text = reported(change(None, pool(1, 2, WITHOUT_A_PRICE)))
    assert "without `pool a10`: price unknown" in text
    assert "0 + unknown" in text
    assert "unknown" in reported(change(None, pool(1, 2, "ecs.of-tomorrow")))
    assert reviewed(change(None, pool(1, 2, "ecs.of-tomorrow"))).capacity.gpus() is None


def test_a_spot_price_has_an_upper_bound_alone() -> None:
    limits = [{"instanceType": A10, "priceLimit": "3.5"}]
    capacity = reviewed(change(None, pool(1, 2, spotStrategy="SpotWithPriceLimit", spotPriceLimits=limits))).capacity
    assert capacity.after.left_out_of_lowest == ("pool a10",)
    assert capacity.after.highest == 7


def test_the_control_plane_counts_and_what_is_billed_by_use_is_named() -> None:
    cluster = step("create", CLUSTER, "cluster", new={"clusterSpec": "ack.pro.small"})
    gateway = step("create", "alicloud:vpc/natGateway:NatGateway", "nat", new={})
    capacity = reviewed(cluster, gateway).capacity
    assert capacity.after.lowest == 0.64
    assert capacity.after.left_out_of_lowest == ("NAT gateway nat",)


def test_a_pool_that_is_replaced_as_it_was_costs_the_same() -> None:
    assert reviewed(step("replace", POOL, "a10", pool(0, 4), pool(0, 4))).capacity.rows == ()


def test_own_prices_replace_those_of_the_list(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(f"as_of: 2026-11-01\nper_hour: {{{A10}: 5}}\nsource: our contract\n", encoding="utf-8")
    prices = read_prices(file)
    assert prices.of(A10) == 5
    assert prices.of(LARGE) == price(LARGE)
    review = stack_review(read_preview(digest(change(None, pool(0, 2)))), prices, "not asked")
    assert review.capacity.after.highest == 10


def test_in_another_currency_only_own_prices_count(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(f'{{"as_of": "2026-11-01", "currency": "EUR", "per_hour": {{"{A10}": 1.5}}}}', encoding="utf-8")
    prices = read_prices(file)
    assert (prices.of(A10), prices.of(LARGE)) == (1.5, None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "the whole file"),
        ("as_of: 2026-11-01\nper_hour: {a: -1}", "per_hour.a"),
        ("as_of: 2026-11-01\nper_hour: {}\nmore: 1", "more"),
        ("per_hour: [", "not a table of prices"),
        ("as_of: soon\nper_hour: {}", "as_of"),
    ],
)
def test_what_is_not_a_table_of_prices_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RefusalError, match=r"Fix: write as_of") as refused:
        read_prices(file)
    assert complaint in str(refused.value)


def test_the_list_is_that_of_the_instance_types() -> None:
    assert list_prices().of(A10) == price(A10)
    assert str(list_prices().as_of) == PRICES_AS_OF
