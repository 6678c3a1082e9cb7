"""Nodes, GPUs and money before and after; what is unknown is named and never 0."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from athanor.command_line import main
from athanor.review.capacity import CostChange, pool_of
from athanor.review.prices import prices_for, read_prices
from athanor.review.reading import read_preview
from athanor.review.stack_review import stack_review
from infra.cost import list_prices
from infra.errors import RefusalError
from infra.instance_types import PRICES_AS_OF, instance_type
from tests.tables import each_row
from tests.unit.athanor.review.digests import CLUSTER, POOL, UNKNOWN, digest, pool, reported, reviewed, step, urn

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
    lowest, highest = capacity.costs()
    assert (lowest.per_hour, highest.per_hour) == (0, pytest.approx(4 * price(A10)))
    text = reported(change(pool(1, 4), pool(1, 8)))
    assert f"+{4 * price(A10) * 730:,.2f} a month" in text
    assert f"Prices of {PRICES_AS_OF}" in text


def test_created_and_deleted_pools_count_whole() -> None:
    assert reviewed(change(None, pool(2, 3))).capacity.nodes() == (2, 3)
    assert reviewed(change(pool(2, 3), None)).capacity.nodes() == (-2, -3)


def test_another_type_changes_the_price_alone() -> None:
    capacity = reviewed(change(pool(0, 2, A10), pool(0, 2, LARGE))).capacity
    assert (capacity.nodes(), capacity.gpus()) == ((0, 0), (0, 0))
    assert capacity.costs()[1].per_hour == pytest.approx(2 * (price(LARGE) - price(A10)))


def test_a_fixed_size_is_the_desired_one() -> None:
    fixed = {"instanceTypes": [A10], "scalingConfig": {"enable": False, "minSize": 1, "maxSize": 9}, "desiredSize": "3"}
    fixed_pool = pool_of(fixed)
    assert fixed_pool
    assert (fixed_pool.fewest, fixed_pool.most) == (3, 3)


@each_row(
    "inputs",
    [{}, {"desiredSize": UNKNOWN}, {"scalingConfig": UNKNOWN}, {"scalingConfig": {"minSize": {}, "maxSize": []}}],
)
def test_a_size_that_is_not_known_yet_is_none(inputs: dict[str, Any]) -> None:
    assert pool_of(inputs) is None
    if inputs:
        changed = change(pool(0, 1), {**inputs, "spotStrategy": {}, "instanceTypes": {}})
        assert reviewed(changed).capacity.costs() == (CostChange(per_hour=0, left_out=("pool a10",)),) * 2
        assert reviewed(changed).capacity.nodes() == (0, 0)


def test_what_has_no_price_is_named() -> None:
    text = reported(change(None, pool(1, 2, WITHOUT_A_PRICE)))
    assert "without `pool a10`: price unknown" in text
    assert "0 + unknown" in text
    assert "unknown" in reported(change(None, pool(1, 2, "ecs.of-tomorrow")))
    assert reviewed(change(None, pool(1, 2, "ecs.of-tomorrow"))).capacity.gpus() is None


def test_a_type_without_a_price_is_neither_a_saving_nor_free() -> None:
    """Its former type, which has a price, would else be a saving."""
    for old, new in ((A10, WITHOUT_A_PRICE), (WITHOUT_A_PRICE, A10)):
        changed = change(pool(2, 4, old), pool(2, 4, new))
        assert reviewed(changed).capacity.costs() == (CostChange(per_hour=0, left_out=("pool a10",)),) * 2
        text = reported(changed)
        assert "0 a month**, without `pool a10`: price unknown" in text
        assert "| 0 + unknown |" in text


def test_a_spot_price_has_an_upper_bound_alone() -> None:
    limits = [{"instanceType": A10, "priceLimit": "3.5"}]
    capacity = reviewed(change(None, pool(1, 2, spotStrategy="SpotWithPriceLimit", spotPriceLimits=limits))).capacity
    lowest, highest = capacity.costs()
    assert (lowest.left_out, highest.left_out) == (("pool a10",), ())
    assert highest.per_hour == 7


def test_the_control_plane_counts_and_what_is_billed_by_use_is_named() -> None:
    cluster = step("create", CLUSTER, "cluster", new={"clusterSpec": "ack.pro.small"})
    gateway = step("create", "alicloud:vpc/natGateway:NatGateway", "nat", new={})
    capacity = reviewed(cluster, gateway).capacity
    assert capacity.costs()[0] == CostChange(per_hour=0.64, left_out=("NAT gateway nat",))


def test_a_pool_that_is_replaced_as_it_was_costs_the_same() -> None:
    assert reviewed(step("replace", POOL, "a10", pool(0, 4), pool(0, 4))).capacity.rows == ()


def test_own_prices_replace_those_of_the_list(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(f"as_of: 2026-11-01\nper_hour: {{{A10}: 5}}\nsource: our contract\n", encoding="utf-8")
    prices = prices_for({}, read_prices(file))
    assert prices.of(A10) == 5
    assert prices.of(LARGE) == price(LARGE)
    review = stack_review(read_preview(digest(change(None, pool(0, 2)))), prices, "not asked")
    assert review.capacity.costs()[1].per_hour == 10


def test_in_another_currency_only_own_prices_count(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(f'{{"as_of": "2026-11-01", "currency": "EUR", "per_hour": {{"{A10}": 1.5}}}}', encoding="utf-8")
    prices = prices_for({}, read_prices(file))
    assert (prices.of(A10), prices.of(LARGE)) == (1.5, None)


def configured(prices: object) -> dict[str, str]:
    return {"athanor:prices": json.dumps(prices)}


OF_THE_STACK = configured({"as_of": "2026-10-02", "per_hour": {A10: 7, LARGE: 8}, "source": "our contract"})


def test_a_file_comes_before_the_settings_and_these_before_the_list(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(f"as_of: 2026-11-01\nper_hour: {{{A10}: 5}}\n", encoding="utf-8")
    prices = prices_for(OF_THE_STACK, read_prices(file))
    assert [prices.of(name) for name in (A10, LARGE, "ack.pro.small")] == [5, 8, 0.64]
    assert prices.source == (
        "a file of prices; for what it leaves out: 2026-10-02, the stack's settings: our contract; for what it leaves"
        f" out: {PRICES_AS_OF}, Alibaba Cloud's list, pay-as-you-go, mainland regions"
    )


@pytest.mark.parametrize("form", ["digest", "events"])
def test_the_report_counts_with_the_prices_of_the_settings_and_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    text = digest(change(None, pool(0, 2)), config=OF_THE_STACK)
    if form == "events":
        made = {"op": "create", "urn": urn(POOL, "a10"), "new": {"inputs": pool(0, 2), "custom": True}}
        events = [{"preludeEvent": {"config": OF_THE_STACK}}, {"resourcePreEvent": {"metadata": made}}]
        text = "\n".join(map(json.dumps, events))
    file = tmp_path / "dev.json"
    file.write_text(text, encoding="utf-8")
    assert main(["review", str(file)]) == 0
    said = capsys.readouterr().out
    assert "CNY +14.00 an hour" in said
    assert "Prices of 2026-10-02 (`the stack's settings: our contract; for what it leaves out:" in said


@each_row("text", ["[secret]", "{", '{"as_of": "soon", "per_hour": {}}', "[" * 100_000])
def test_settings_that_hold_no_prices_are_reported_and_the_list_counts(text: str) -> None:
    prices = prices_for({"athanor:prices": text})
    assert prices.per_hour == list_prices().per_hour
    assert prices.source.startswith("athanor:prices cannot be read (")


def test_a_stack_without_prices_has_those_of_the_list() -> None:
    assert prices_for({"athanor:namespace": "x"}) == list_prices()


def test_a_date_without_quotes_arrives_as_the_engine_writes_it() -> None:
    prices = prices_for(configured({"as_of": "2026-10-02 00:00:00 +0000 UTC", "per_hour": {}}))
    assert str(prices.as_of) == "2026-10-02"


@each_row(
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
