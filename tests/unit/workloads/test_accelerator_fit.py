"""A request for GPUs is checked against the nodes that would have to give them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.settings.gpu import Cgpu, Mig, Mps, TimeSlicing
from tests.tables import each_row
from tests.unit.workloads.job_cases import gpu_pool
from workloads.accelerator_fit import check_accelerator, pods_per_node
from workloads.accelerators import GpuMemory, MigInstances, SharedGpu, WholeGpus

if TYPE_CHECKING:
    from infra.offers import PoolOffer

WHOLE = gpu_pool("ecs.ebmgn7e.32xlarge")


def shared(sharing: object, per_gpu: int) -> PoolOffer:
    return dataclasses.replace(WHOLE, sharing=sharing, shares_per_gpu=per_gpu)


SLICED = shared(TimeSlicing(replicas=4), 4)
MPS = shared(Mps(replicas=2), 2)
SPLIT = shared(Mig(profile="1g.10gb"), 7)
CGPU = shared(Cgpu(), 0)
CORES = shared(Cgpu(isolation="memory_and_cores"), 0)
LINGJUN = dataclasses.replace(WHOLE, instance_types=(), node=None, gpus_per_node=None, gpu_memory_gib=0)
NONE = dataclasses.replace(WHOLE, name="cpu", gpus_per_node=0, gpu_memory_gib=0, shares_per_gpu=0)


@each_row(
    ("asked", "pool", "pods"),
    [
        (WholeGpus(count=8), WHOLE, 1),
        (WholeGpus(count=2), WHOLE, 4),
        (WholeGpus(count=3), LINGJUN, None),
        (SharedGpu(), SLICED, 32),
        (SharedGpu(), MPS, 16),
        (MigInstances(profile="1g.10gb"), SPLIT, 56),
        (GpuMemory(gib=20), CGPU, 32),
        (GpuMemory(gib=80), CGPU, 8),
        (GpuMemory(gib=20, core_percentage=50), CORES, 16),
    ],
)
def test_what_fits_is_counted(asked, pool, pods):
    check_accelerator(asked, pool)
    assert pods_per_node(asked, pool) == pods


@each_row(
    ("asked", "pool", "words"),
    [
        (WholeGpus(count=1), NONE, ("have no GPUs", "a pool with GPUs")),
        (WholeGpus(count=9), WHOLE, ("has 8 GPUs", "at most 8")),
        (WholeGpus(count=3), WHOLE, ("unused forever", "1, 2, 4, 8")),
        (WholeGpus(count=1), SLICED, ("shares its GPUs by time slicing", "SharedGpu()")),
        (WholeGpus(count=1), SPLIT, ("shares its GPUs by mig", 'MigInstances(profile="1g.10gb")')),
        (WholeGpus(count=1), CGPU, ("shares its GPUs by cgpu", "GpuMemory")),
        (SharedGpu(), WHOLE, ("whole GPUs only", "gpus=8")),
        (SharedGpu(), SPLIT, ("shares its GPUs by mig", "MigInstances")),
        (MigInstances(profile="1g.10gb"), WHOLE, ("whole GPUs only", "gpus=8")),
        (SharedGpu(), LINGJUN, ("whole GPUs only", "gpus=8")),
        (MigInstances(profile="1g.12gb"), SPLIT, ("are split into 1g.10gb", "request gpus=MigInstances")),
        (GpuMemory(gib=8), WHOLE, ("whole GPUs only", "gpus=8")),
        (GpuMemory(gib=8), MPS, ("shares its GPUs by mps", "SharedGpu()")),
        (GpuMemory(gib=81), CGPU, ("has 80 GiB", "it must fit on one GPU")),
        (GpuMemory(gib=8, core_percentage=50), CGPU, ("not compute", "memory_and_cores")),
    ],
)
def test_what_no_node_can_give_is_refused(asked, pool, words):
    with pytest.raises(RefusalError) as caught:
        check_accelerator(asked, pool)
    assert all(word in str(caught.value) for word in words)


@given(st.integers(1, 16), st.sampled_from([1, 2, 4, 8]))
def test_accepted_whole_gpus_leave_none_of_a_node_unused(count, per_node):
    pool = dataclasses.replace(WHOLE, gpus_per_node=per_node)
    try:
        check_accelerator(WholeGpus(count=count), pool)
    except RefusalError:
        assert count > per_node or per_node % count
    else:
        assert pods_per_node(WholeGpus(count=count), pool) * count == per_node


@given(st.integers(1, 200), st.none() | st.integers(1, 100))
def test_accepted_memory_fits_as_often_as_counted(gib, cores):
    asked = GpuMemory(gib=gib, core_percentage=cores)
    try:
        check_accelerator(asked, CORES)
    except RefusalError:
        assert gib > CORES.gpu_memory_gib
        return
    per_gpu, rest = divmod(pods_per_node(asked, CORES), CORES.gpus_per_node)
    assert rest == 0
    assert per_gpu >= 1
    assert per_gpu * gib <= CORES.gpu_memory_gib
    assert per_gpu * (cores or 0) <= 100
    assert (per_gpu + 1) * gib > CORES.gpu_memory_gib or (per_gpu + 1) * (cores or 0) > 100
