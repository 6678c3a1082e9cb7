"""What a pod can ask of GPUs, and which resource that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from tests.tables import each_row
from workloads.accelerators import GpuMemory, MigInstances, SharedGpu, WholeGpus
from workloads.resources import Resources


@each_row(
    ("gpus", "limits", "visible"),
    [
        (WholeGpus(count=8), {"nvidia.com/gpu": "8"}, 8),
        (8, {"nvidia.com/gpu": "8"}, 8),
        (SharedGpu(), {"nvidia.com/gpu.shared": "1"}, 1),
        (MigInstances(profile="1g.10gb"), {"nvidia.com/mig-1g.10gb": "1"}, 1),
        (GpuMemory(gib=12), {"aliyun.com/gpu-mem": "12"}, 1),
        (
            GpuMemory(gib=12, core_percentage=30),
            {"aliyun.com/gpu-mem": "12", "aliyun.com/gpu-core.percentage": "30"},
            1,
        ),
    ],
)
def test_a_request_is_these_resources_and_shows_so_many_gpus(gpus, limits, visible):
    resources = Resources(memory="2Gi", gpus=gpus)
    assert resources.visible_gpus == visible
    manifest = resources.manifest({"aliyun/erdma": "1"})
    # Kubernetes wants requests and limits of such resources alike.
    assert manifest["limits"] == {"memory": "2Gi", **limits, "aliyun/erdma": "1"}
    assert manifest["requests"] == {"cpu": "500m", **manifest["limits"]}


@each_row(
    ("make", "words"),
    [
        (lambda: WholeGpus(count=0), ("resources.gpus = 0", "1 to 16")),
        (lambda: WholeGpus(count=17), ("resources.gpus = 17", "1 to 16")),
        (lambda: MigInstances(profile="10gb"), ("resources.gpus.profile = '10gb'", "1g.10gb")),
        (lambda: MigInstances(profile="1g.10gb\n"), ("resources.gpus.profile", "1g.10gb")),
        (lambda: MigInstances(profile="1g.10gb", count=0), ("resources.gpus.count = 0", "one would idle")),
        (
            lambda: MigInstances(profile="1g.10gb", count=2),
            ("resources.gpus.count = 2", "a single MIG instance", "omit count"),
        ),
        (lambda: GpuMemory(gib=0), ("resources.gpus.gib = 0", "1 to 1024")),
        (lambda: GpuMemory(gib=1, core_percentage=0), ("resources.gpus.core_percentage = 0", "1 to 100")),
        (lambda: GpuMemory(gib=1, core_percentage=101), ("resources.gpus.core_percentage = 101", "1 to 100")),
    ],
)
def test_what_no_gpu_has_is_refused(make, words):
    with pytest.raises(RefusalError) as caught:
        make()
    assert all(word in str(caught.value) for word in words)


@given(st.integers(1, 16))
def test_a_number_is_short_for_whole_gpus(count):
    assert Resources(gpus=count).manifest() == Resources(gpus=WholeGpus(count=count)).manifest()


def test_none_is_none():
    assert Resources().accelerator is None
    assert Resources().visible_gpus == 0
