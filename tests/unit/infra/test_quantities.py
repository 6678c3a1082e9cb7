"""Sizes are written as the API server returns them."""

from __future__ import annotations

import pytest

from infra.quantities import gib_quantity


@pytest.mark.parametrize(
    ("gib", "written"),
    [(1, "1Gi"), (5, "5Gi"), (1000, "1000Gi"), (1024, "1Ti"), (1536, "1536Gi"), (65536, "64Ti"), (1024**2, "1Pi")],
)
def test_a_size_has_the_largest_unit_that_keeps_it_whole(gib, written):
    assert gib_quantity(gib) == written
