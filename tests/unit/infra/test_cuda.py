"""CUDA in images, drivers and GPUs of nodes: one table, which says what the images really hold."""

from __future__ import annotations

import re

import pytest
import torch

from infra.cuda import (
    ACK_DRIVERS,
    DEFAULT_DRIVER,
    LEAST_DRIVERS,
    PYTORCH_IMAGE_CUDA,
    TENSORFLOW_IMAGE_CUDA,
    ImageCuda,
    check_driver,
)
from infra.errors import RefusalError
from infra.images import REPOSITORY, tensorflow_cuda, trainer_cuda
from infra.instance_types import INSTANCE_TYPES
from infra.offers import PlatformOffers
from infra.pools import platform_offers
from infra.settings.parse import parse_settings
from tests.tables import each_row
from tools.stacks.engine import stack_config

V100, T4, L20, H20, BLACKWELL = "7.0", "7.5", "8.9", "9.0", "12.0"


def pinned(file: str, package: str) -> str:
    [version] = re.findall(rf"^{package}==([0-9.]+)", (REPOSITORY / "trainer" / file).read_text(), re.MULTILINE)
    return version


def test_the_pytorch_image_is_what_its_wheel_says():
    assert torch.__version__.startswith(pinned("requirements.txt", "torch"))
    assert torch.version.cuda == PYTORCH_IMAGE_CUDA.version
    compiled = torch._C._cuda_getArchFlags().split()
    assert [f"sm_{kernel.replace('.', '')}" for kernel in PYTORCH_IMAGE_CUDA.kernels] == compiled
    assert pinned("requirements.txt", "cuda-toolkit").startswith(f"{PYTORCH_IMAGE_CUDA.version}.")


def test_the_tensorflow_image_is_what_its_libraries_say():
    version = pinned("requirements-tensorflow.txt", "nvidia-cuda-runtime-cu12")
    assert version.startswith(f"{TENSORFLOW_IMAGE_CUDA.version}.")


@each_row(
    ("cuda", "driver", "runs"),
    [
        ("13.2", "580.126.09", True),
        ("13.2", "570.195.03", False),
        ("13.0", "550.144.03", False),
        ("12.9", "550.144.03", True),
        ("12.9", "535.161.07", True),
        ("12.0", "515.105.01", False),
        ("11.8", "470.161.03", True),
        ("12.9", "580.126.09", True),
    ],
)
def test_a_major_release_of_cuda_needs_its_driver(cuda, driver, runs):
    assert ImageCuda(version=cuda).runs_with_driver(driver) is runs


@each_row(("gpu", "runs"), [(V100, False), (T4, True), ("8.6", True), (L20, True), (H20, True), (BLACKWELL, True)])
def test_kernels_run_on_gpus_of_their_major_version(gpu, runs):
    assert PYTORCH_IMAGE_CUDA.runs_on(gpu) is runs
    assert ImageCuda(version="12.8", kernels=("8.6",)).runs_on("8.0") is False
    assert ImageCuda(version="12.8").runs_on(gpu), "nobody knows its kernels"


def test_our_images_run_with_the_driver_that_nodes_get():
    for image in (PYTORCH_IMAGE_CUDA, TENSORFLOW_IMAGE_CUDA):
        assert image.runs_with_driver(DEFAULT_DRIVER)
    assert {int(driver.split(".")[0]) >= min(LEAST_DRIVERS.values()) for driver in ACK_DRIVERS} == {True}


@each_row("driver", ACK_DRIVERS)
def test_acks_drivers_are_taken(driver):
    assert check_driver(driver) == driver


@each_row(
    ("driver", "says"),
    [("550", "write it as"), ("latest", "write it as"), ("570.153.02", "an older default"), ("580.1.1", "580.126.09")],
)
def test_what_ack_would_replace_silently_is_refused(driver, says):
    with pytest.raises(ValueError, match=r"Fix: ") as refused:
        check_driver(driver)
    assert says in str(refused.value)


def test_only_gpus_that_the_cloud_does_not_name_have_no_compute_capability():
    unknown = {row.gpu.label for row in INSTANCE_TYPES.values() if row.gpu and row.gpu.compute_capability is None}
    assert unknown == {None}


def images(**raw):
    return parse_settings({"images": raw}).images


def test_the_variant_decides_the_cuda_of_our_images_and_the_settings_that_of_others():
    assert trainer_cuda(images()) is None
    assert tensorflow_cuda(images()) is None
    assert trainer_cuda(images(trainer_variant="gpu")) == PYTORCH_IMAGE_CUDA
    assert tensorflow_cuda(images(trainer_variant="gpu")) == TENSORFLOW_IMAGE_CUDA
    own = images(trainer="example.com/own:1", trainer_cuda=12.8, trainer_variant="gpu")
    assert trainer_cuda(own) == ImageCuda(version="12.8")
    assert tensorflow_cuda(own) == TENSORFLOW_IMAGE_CUDA


@each_row(
    ("raw", "says"),
    [
        ({"trainer_cuda": "12.8"}, "Fix: name yours under images.trainer"),
        ({"tensorflow_cuda": "12.8"}, "Fix: name yours under images.tensorflow"),
        ({"trainer": "example.com/own:1", "trainer_cuda": "12"}, "trainer_cuda = '12'"),
        ({"trainer": "example.com/own:1", "trainer_cuda": "14.0"}, "trainer_cuda = '14.0'"),
    ],
)
def test_a_cuda_that_describes_nothing_is_refused(raw, says):
    with pytest.raises(RefusalError) as refused:
        images(**raw)
    assert says in str(refused.value)


@each_row("stack", ["dev", "staging", "prod"])
def test_every_gpu_pool_of_our_environments_has_a_driver_that_our_image_runs_with(stack):
    offers = platform_offers(parse_settings(stack_config(stack)))
    pools = [pool for pool in offers.pools if pool.role == "gpu"]
    assert pools
    assert offers.trainer_cuda == PYTORCH_IMAGE_CUDA
    for pool in pools:
        assert pool.driver_version is not None
        assert PYTORCH_IMAGE_CUDA.runs_with_driver(pool.driver_version)
        assert pool.compute_capability is not None
        assert PYTORCH_IMAGE_CUDA.runs_on(pool.compute_capability)
    assert PlatformOffers.from_dict(offers.to_dict()) == offers
