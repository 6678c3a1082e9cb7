"""Jobs of the platform's images are refused on GPUs and drivers that these images cannot use."""

from __future__ import annotations

import dataclasses

import pytest

from infra.cuda import PYTORCH_IMAGE_CUDA, TENSORFLOW_IMAGE_CUDA, ImageCuda
from infra.errors import RefusalError
from infra.offers import PlatformOffers
from infra.pod_network_modes import SharedEni
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import gpu_pool, plain_platform
from workloads.cuda_fit import check_cuda
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.placement import Placement
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources
from workloads.tensorflow import TensorFlowJob, TensorFlowJobArgs
from workloads.triton import Triton

A10 = gpu_pool("ecs.gn7i-c8g1.2xlarge", name="a10", driver_version="580.126.09", gpus_per_node=1, gpu_memory_gib=24)
OLD_DRIVER = dataclasses.replace(A10, name="old", driver_version="550.144.03")
V100 = gpu_pool("ecs.gn6v-c8g1.2xlarge", name="v100", driver_version="580.126.09", gpus_per_node=1, gpu_memory_gib=16)
UNKNOWN = dataclasses.replace(A10, name="unknown", driver_version=None, compute_capability=None)


def placement(pool, gpus=1):
    return Placement(pods=1, own_labels={}, resources=Resources(gpus=gpus), network=SharedEni(), pool=pool, rdma=None)


@each_row(
    ("cuda", "pool", "pools", "gpus"),
    [
        (PYTORCH_IMAGE_CUDA, "a10", (A10, V100), 1),
        (PYTORCH_IMAGE_CUDA, None, (A10, UNKNOWN), 1),
        (PYTORCH_IMAGE_CUDA, "unknown", (UNKNOWN,), 1),
        (PYTORCH_IMAGE_CUDA, "v100", (V100,), 0),
        (PYTORCH_IMAGE_CUDA, None, (A10, V100), 0),
        (None, "v100", (V100,), 1),
        (TENSORFLOW_IMAGE_CUDA, "old", (OLD_DRIVER,), 1),
        (ImageCuda(version="12.6", kernels=("7.0", "8.0")), "v100", (V100,), 1),
    ],
)
def test_what_runs_is_taken(cuda, pool, pools, gpus):
    check_cuda(cuda, placement(pool, gpus), PlatformOffers(pools=pools))


@each_row(
    ("cuda", "pool", "pools", "says"),
    [
        (PYTORCH_IMAGE_CUDA, "old", (OLD_DRIVER,), ("550.144.03", "CUDA 13.2", "580 or newer", "580.126.09")),
        (PYTORCH_IMAGE_CUDA, "v100", (V100,), ("capability 7.0", "7.5, 8.0", "newer GPUs", "your own image")),
        (PYTORCH_IMAGE_CUDA, None, (A10, V100), ("'v100'", "set another pool", "without one")),
        (ImageCuda(version="12.0"), None, (dataclasses.replace(A10, driver_version="515.1"),), ("525 or newer",)),
    ],
)
def test_what_cannot_run_is_refused_with_the_remedy(cuda, pool, pools, says):
    with pytest.raises(RefusalError) as refused:
        check_cuda(cuda, placement(pool), PlatformOffers(pools=pools))
    for words in (*says, "Fix: "):
        assert words in str(refused.value)


def test_a_pool_that_cannot_give_the_gpus_is_not_looked_at():
    eight = dataclasses.replace(A10, name="eight", gpus_per_node=8)
    check_cuda(PYTORCH_IMAGE_CUDA, placement(None, 8), PlatformOffers(pools=(eight, V100)))


def test_a_service_on_triton_is_refused_on_a_pool_with_an_old_driver():
    def declare() -> None:
        offers = PlatformOffers(pools=(OLD_DRIVER,))
        on_gpus = {"runtime": Triton(), "resources": Resources(gpus=1)}
        platform = dataclasses.replace(plain_platform(), offers=offers)
        TorchScriptService("digits", platform, TorchScriptServiceArgs(model="digits", **own, **on_gpus))

    own: dict[str, str] = {}
    with pytest.raises(RefusalError, match=r"550\.144\.03, but CUDA 13\.4 in the image needs 580 or newer"):
        record(declare, preview=True)
    own = {"image": "registry.example/triton:old"}  # of which nobody knows the CUDA
    record(declare, preview=True)


def program(declare):
    def declared():
        offers = PlatformOffers(pools=(V100,), trainer_cuda=PYTORCH_IMAGE_CUDA, tensorflow_cuda=TENSORFLOW_IMAGE_CUDA)
        declare(dataclasses.replace(plain_platform(), offers=offers))

    return declared


def pytorch(**changes):
    args = PyTorchJobArgs(program=["-m", "train"], workers=1, resources=Resources(gpus=1), pool="v100", **changes)
    return program(lambda platform: PyTorchJob("job", platform, args))


def test_a_job_of_our_image_is_refused_on_v100_and_one_of_a_foreign_image_is_not():
    with pytest.raises(RefusalError, match=r"compute capability 7\.0"):
        record(pytorch(), preview=True)
    with pytest.raises(RefusalError, match=r"compute capability 7\.0"):
        record(pytorch(image="trainer:1"), preview=True)
    assert record(pytorch(image="foreign:1"), preview=True).of_type("kubernetes:batch.volcano.sh/v1alpha1:Job")


def test_a_tensorflow_job_has_its_own_images_cuda():
    args = TensorFlowJobArgs(program=["-m", "train"], workers=1, resources=Resources(gpus=1), pool="v100")
    assert record(program(lambda platform: TensorFlowJob("job", platform, args)), preview=True)
