"""The one table that pools, pod sizes and quotas derive from must not contradict itself."""

from __future__ import annotations

import re

import pytest

from infra.errors import RefusalError
from infra.instance_types import INSTANCE_TYPES, instance_type

ROWS = pytest.mark.parametrize("row", INSTANCE_TYPES.values(), ids=INSTANCE_TYPES)
_SIZE = re.compile(r"\.(?P<multiple>\d*)xlarge$")


@ROWS
def test_a_row_is_keyed_by_its_name(row):
    assert INSTANCE_TYPES[row.name] is row
    assert re.fullmatch(r"ecs\.[a-z0-9-]+\.\d+xlarge", row.name)


@ROWS
def test_the_size_in_the_name_gives_the_vcpus(row):
    """`<n>xlarge` has 4 n vCPUs; an older GPU family counts the whole instance (`c16g1`: 16 vCPUs per GPU)."""
    per_gpu = re.search(r"-c(\d+)g1\.", row.name)
    multiple = int(_SIZE.search(row.name)["multiple"])
    expected = {int(per_gpu[1]) * row.gpus, 4 * multiple} if per_gpu else {4 * multiple}
    assert row.vcpus in expected


@ROWS
def test_gpus_share_an_instance_evenly(row):
    assert row.gpus in (1, 2, 4, 8)
    assert row.vcpus % row.gpus == 0
    assert row.memory_gib >= row.gpus * 16
    assert row.gpu_memory_gib in (24, 48, 80, 96)


@ROWS
def test_pods_get_addresses_from_all_interfaces_but_the_first(row):
    assert row.enis >= 2
    assert row.shared_eni_pods == (row.enis - 1) * row.ipv4_per_eni
    assert row.shared_eni_pods >= 15


def test_equal_families_have_equal_gpus():
    for prefix, memory in {"ecs.gn7i": 24, "ecs.gn7e": 80, "ecs.ebmgn7e": 80, "ecs.gn8is": 48, "ecs.gn8v": 96}.items():
        family = [row for name, row in INSTANCE_TYPES.items() if name.startswith(prefix)]
        assert family
        assert {row.gpu_memory_gib for row in family} == {memory}


@pytest.mark.parametrize(
    ("asked", "near"),
    [("gn7i-c8g1.2xlarge", "ecs.gn7i-c8g1.2xlarge"), ("ecs.gn8v.4xlarg", "ecs.gn8v.4xlarge")],
)
def test_an_unknown_type_is_answered_with_near_ones(asked, near):
    with pytest.raises(RefusalError, match="is not in") as caught:
        instance_type(asked)
    assert near in caught.value.fix
    assert caught.value.value == asked


def test_a_known_type_is_found():
    assert instance_type("ecs.ebmgn8v.48xlarge").gpus == 8
