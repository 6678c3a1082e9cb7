"""The one table that pools, addresses, pod sizes, quotas and cost derive from must not contradict itself."""

from __future__ import annotations

import re

import pytest

from infra import gpu_models
from infra.errors import RefusalError
from infra.instance_types import FEWEST_PODS, INSTANCE_TYPES, LOW_LATENCY_FAMILIES, instance_type
from tests.tables import each_row

ROWS = each_row("row", INSTANCE_TYPES.values(), ids=INSTANCE_TYPES)
_SIZE = re.compile(r"\.(?P<multiple>\d*)(?P<half>x?)large$")


@ROWS
def test_a_row_is_keyed_by_its_name(row):
    assert INSTANCE_TYPES[row.name] is row
    assert re.fullmatch(r"ecs\.[a-z0-9-]+\.(\d*x)?large", row.name)


@ROWS
def test_the_size_in_the_name_gives_the_vcpus(row):
    """`<n>xlarge` has 4 n vCPUs and `large` 2; an older GPU family counts per GPU (`c16g1`: 16 vCPUs for each)."""
    per_gpu = re.search(r"-c(\d+)g1\.", row.name)
    size = _SIZE.search(row.name)
    vcpus = 4 * int(size["multiple"] or 1) if size["half"] else 2
    expected = {int(per_gpu[1]) * row.gpus, vcpus} if per_gpu else {vcpus}
    # gn6v-c10g1.20xlarge keeps some vCPUs to itself: 82 of 20 x 4
    assert row.vcpus in expected | ({82} if row.name == "ecs.gn6v-c10g1.20xlarge" else set())


@ROWS
def test_the_number_of_gpus_in_the_name_is_the_number_of_gpus(row):
    named = re.search(r"-(\d)x\.", row.name)
    assert row.gpus == (int(named[1]) if named else row.gpus)
    assert row.gpus in ((1, 2, 4, 8) if "gn" in row.name else (0,))


@ROWS
def test_a_type_has_a_gpu_model_exactly_if_it_has_gpus(row):
    assert (row.gpu is not None) == (row.gpus > 0)
    assert row.gpu_memory_gib == (row.gpu.memory_gib if row.gpu else 0)
    assert row.gpu_memory_gib in (0, 16, 24, 32, 40, 48, 72, 80, 96)
    assert row.memory_gib >= max(row.vcpus, row.gpus * 15)


@ROWS
def test_what_only_some_can_have(row):
    assert row.bare_metal == ("ebm" in row.name)
    assert not row.uefi or row.bare_metal
    assert not row.nvlink or row.gpus > 1
    assert row.rdma in ("none", "erdma")  # Lingjun machines are not ECS types


@each_row(
    ("family", "gpu", "rdma", "nvlink"),
    [
        ("gn6i", gpu_models.T4, "none", False),
        ("gn6v", gpu_models.V100_16, "none", True),
        ("gn6e", gpu_models.V100_32, "none", True),
        ("gn7", gpu_models.A100_40, "none", True),
        ("gn7s", gpu_models.A30, "none", False),
        ("gn7i", gpu_models.A10, "none", False),
        ("gn7e", gpu_models.A100_80, "none", True),
        ("gn8is", gpu_models.L20, "erdma", False),
        ("gn8ia", gpu_models.L20, "erdma", False),
        ("gn8v", gpu_models.H20, "erdma", True),
        ("gn9g", gpu_models.BLACKWELL_48, "erdma", False),
        ("gn9gc", gpu_models.BLACKWELL_72, "erdma", False),
        ("gn9ge", gpu_models.BLACKWELL_72, "erdma", False),
    ],
)
def test_a_family_shares_its_gpu_and_its_network(family, gpu, rdma, nvlink):
    rows = [row for row in INSTANCE_TYPES.values() if re.match(rf"ecs\.(ebm)?{family}[.-]", row.name)]
    assert rows
    assert {row.gpu.label for row in rows} == {gpu.label}
    assert {row.gpu_memory_gib for row in rows} == {gpu.memory_gib}
    assert {row.rdma for row in rows} == {rdma}
    assert {row.nvlink for row in rows if row.gpus > 1} <= {nvlink}


@ROWS
def test_mig_profiles_fit_into_the_gpu(row):
    for profile, count in (row.gpu.mig_profiles if row.gpu else {}).items():
        slices, memory = re.fullmatch(r"(\d)g\.(\d+)gb", profile).groups()
        assert int(memory) * count <= row.gpu_memory_gib
        assert int(slices) * count <= 7


@ROWS
def test_pods_get_addresses_from_all_interfaces_but_the_first(row):
    assert row.enis >= 2
    assert row.shared_eni_pods == (row.enis - 1) * row.ipv4_per_eni
    assert row.pods("exclusive") == row.enis - 1


@ROWS
def test_rdma_takes_interfaces_from_pods_only_where_there_is_some(row):
    reserved = row.pods("exclusive") - row.pods("exclusive", rdma=True)
    assert reserved == (0 if row.rdma == "none" else 2 if row.enis >= 8 else 1)
    assert row.pods("shared") - row.pods("shared", rdma=True) == reserved * row.ipv4_per_eni


@each_row(
    ("name", "mode", "pods"),
    [
        ("ecs.g7.4xlarge", "shared", 210),  # the documentation's own examples
        ("ecs.g7.4xlarge", "exclusive", 7),
        ("ecs.g7.large", "shared", 12),  # the smallest that joins
        ("ecs.ebmgn8v.48xlarge", "shared", 930),
    ],
)
def test_a_node_with_enough_pods_joins(name, mode, pods):
    assert instance_type(name).pods(mode) == pods >= FEWEST_PODS[mode]
    instance_type(name).check_can_join(mode)


@each_row(
    ("name", "mode", "rdma", "pods", "instead"),
    [
        ("ecs.gn6i-c4g1.xlarge", "shared", False, 10, "ecs.gn6i-c16g1.4xlarge"),
        ("ecs.g7.2xlarge", "exclusive", False, 3, "ecs.g7.3xlarge"),
        ("ecs.gn8is-2x.8xlarge", "exclusive", True, 5, "use shared ENIs"),
        ("ecs.gn8v-8x.16xlarge", "exclusive", True, 5, "ecs.gn8v-8x.48xlarge"),
    ],
)
def test_a_node_with_too_few_pods_is_refused(name, mode, rdma, pods, instead):
    with pytest.raises(RefusalError, match=f"gives {pods} pods.*at least {FEWEST_PODS[mode]}") as caught:
        instance_type(name).check_can_join(mode, rdma=rdma)
    assert caught.value.value == name
    assert instead in caught.value.fix


@ROWS
def test_a_type_offered_instead_would_join(row):
    for mode in FEWEST_PODS:
        for rdma in (False, True):
            try:
                row.check_can_join(mode, rdma=rdma)
            except RefusalError as refusal:
                for name in re.findall(r"ecs\.\S+", refusal.fix):
                    other = instance_type(name)
                    assert other.gpus == row.gpus
                    other.check_can_join(mode, rdma=rdma)


@ROWS
def test_a_price_is_positive_and_grows_with_the_gpus(row):
    if row.price_cny_per_hour is not None:
        assert 0.1 * row.vcpus < row.price_cny_per_hour < 0.3 * row.vcpus + 40 * row.gpus


@each_row(("asked", "near"), [("gn7i-c8g1.2xlarge", "ecs.gn7i-c8g1.2xlarge"), ("ecs.gn8v.4xlarg", "ecs.gn8v.4xlarge")])
def test_an_unknown_type_is_answered_with_near_ones(asked, near):
    with pytest.raises(RefusalError, match="is not in") as caught:
        instance_type(asked)
    assert near in caught.value.fix
    assert caught.value.value == asked


@each_row(
    ("name", "family", "close"),
    [
        ("ecs.gn8v-8x.48xlarge", "gn8v", True),
        ("ecs.ebmgn8v.48xlarge", "ebmgn8v", True),
        ("ecs.g7.large", "g7", True),
        ("ecs.gn8is.4xlarge", "gn8is", False),
        ("ecs.gn7i-c8g1.2xlarge", "gn7i", False),
        ("ecs.gn7e-c16g1.32xlarge", "gn7e", False),
    ],
)
def test_some_families_can_be_placed_close_together(name, family, close):
    assert instance_type(name).family == family
    assert instance_type(name).low_latency is close


def test_the_families_that_can_be_placed_close_together_are_in_the_table():
    assert {row.family for row in INSTANCE_TYPES.values()} >= LOW_LATENCY_FAMILIES
