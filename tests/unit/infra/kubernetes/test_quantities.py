"""Sizes are written as the API server returns them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.kubernetes.quantities import gib_quantity, mib_quantity, millis_quantity, quantity_value
from tests.tables import each_row


@each_row(
    ("gib", "written"),
    [(1, "1Gi"), (5, "5Gi"), (1000, "1000Gi"), (1024, "1Ti"), (1536, "1536Gi"), (65536, "64Ti"), (1024**2, "1Pi")],
)
def test_a_size_has_the_largest_unit_that_keeps_it_whole(gib, written):
    assert gib_quantity(gib) == written


@each_row(("mib", "written"), [(0, "0Mi"), (1, "1Mi"), (1536, "1536Mi"), (2048, "2Gi"), (1024**2, "1Ti")])
def test_so_has_one_in_mib(mib, written):
    assert mib_quantity(mib) == written


@each_row(("millis", "written"), [(0, "0"), (1, "1m"), (1500, "1500m"), (2000, "2")])
def test_cores_are_whole_where_they_can_be(millis, written):
    assert millis_quantity(millis) == written


@given(st.integers(0, 2**40))
def test_what_is_written_stands_for_the_same_number(number):
    assert quantity_value(millis_quantity(number)) * 1000 == number
    assert quantity_value(mib_quantity(number)) == number * 1024**2


@each_row(
    ("text", "value"),
    [
        ("8", 8),
        ("0.5", 0.5),
        ("500m", 0.5),
        ("100n", Fraction(1, 10**7)),
        ("2k", 2000),
        ("4Gi", 4 * 1024**3),
        ("1.5Ti", 1.5 * 1024**4),
        ("2e3", 2000),
        ("1E3", 1000),
        ("2E", 2 * 10**18),
        ("-1", -1),
    ],
)
def test_a_quantity_is_a_number(text, value):
    assert quantity_value(text) == value


@each_row("text", ["", "Gi", "4gi", "4 Gi", "4GiB", "four", "1.2.3", "0x10", "1/2", "nan"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        quantity_value(text)
