"""Values as people read them."""

import math

import pytest

from infra.monitoring.dashboards import dashboards
from infra.monitoring.dashboards.queries import panels
from tests.tables import each_row
from tools.operations.dashboards.units import formatted, scale


@each_row(
    ("unit", "value", "text"),
    [
        ("s", 0.0004, "400 µs"),
        ("s", 0.0213, "21.3 ms"),
        ("s", 90, "1.5 min"),
        ("s", 200_000, "2.31 d"),
        ("ms", 1500, "1.5 s"),
        ("percentunit", 0.0004, "0.04 %"),
        ("percentunit", 1.5, "150 %"),
        ("percentunit", 0.999, "99.9 %"),
        ("bytes", 1024, "1 KiB"),
        ("bytes", 3e9, "2.79 GiB"),
        ("Bps", 125e6, "125 MB/s"),
        ("reqps", 0.25, "0.25 req/s"),
        ("short", 0, "0"),
        ("short", 4950, "4.95 K"),
        ("none", 1234567, "1,234,567"),
        ("none", -0.5, "-0.5"),
        ("currency:CNY", 34.7416, "34.7 CNY"),
        ("none", math.nan, "nan"),
        ("s", math.inf, "inf"),
    ],
)
def test_a_value_is_shown_with_three_digits_and_its_unit(unit, value, text):
    assert formatted(unit, value) == text


def test_decimals_can_be_said():
    assert formatted("currency:CNY", 34.7416, 2) == "34.74 CNY"


def test_the_largest_value_chooses_the_scale_and_what_is_not_a_number_does_not():
    hours = scale("s", [0.001, 7200, math.inf, math.nan])
    assert (hours.size, hours.suffix) == (3600, " h")


@each_row(("unit", "text"), [("s", "0 s"), ("ms", "0 ms"), ("bytes", "0 B"), ("percentunit", "0 %")])
def test_nothing_is_shown_in_the_plain_unit(unit, text):
    assert formatted(unit, 0) == text
    assert scale(unit, []) == scale(unit, [0.0])


def test_every_unit_of_the_dashboards_is_known():
    used = {panel["fieldConfig"]["defaults"]["unit"] for board in dashboards().values() for panel in panels(board)}
    assert len(used) > 8
    for unit in used:
        formatted(unit, 12.5)


def test_an_unknown_unit_is_refused():
    with pytest.raises(ValueError, match=r"'furlong'.*Fix: add"):
        formatted("furlong", 1)
