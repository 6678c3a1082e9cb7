"""A driver that is too old is named, instead of the pod's request being blamed."""

from __future__ import annotations

import pytest
import torch

from trainer.helpers.hardware import hardware
from trainer.pytorch import gpu_driver, nvidia_driver
from trainer.pytorch.distributed import Distributed, DistributedConfig

PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30 17:44:08 UTC 2024\nGCC version:\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.09  Release Build  (dvs-builder@U22)\n"
TOO_OLD = "The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver by …"


@pytest.fixture
def module(tmp_path, monkeypatch):
    file = tmp_path / "version"
    monkeypatch.setattr(nvidia_driver, "KERNEL_MODULE", file)
    return file


def fail():
    raise RuntimeError(TOO_OLD)


@pytest.mark.parametrize(("text", "version"), [(PROPRIETARY, "550.144.03"), (OPEN, "580.126.09"), ("nothing", None)])
def test_the_driver_is_what_the_kernel_module_says(module, text, version):
    module.write_text(text)
    assert nvidia_driver.driver_version() == version
    assert hardware()["driver"] == version


def test_a_machine_without_the_driver_has_none(module, monkeypatch):
    monkeypatch.setattr(torch.cuda, "init", fail)
    assert not module.exists()
    assert nvidia_driver.driver_version() is None
    assert gpu_driver.why_no_gpu() is None, "the pod has no GPU: that is another message"


def test_a_driver_that_cuda_starts_with_is_not_a_reason(module, monkeypatch):
    module.write_text(OPEN)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    assert gpu_driver.why_no_gpu() is None


def test_a_rank_names_the_driver_that_is_too_old(module, monkeypatch):
    module.write_text(PROPRIETARY)
    monkeypatch.setattr(torch.cuda, "init", fail)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # the management library counts whatever CUDA needs
    with pytest.raises(ValueError, match=r"^num_gpu=1: CUDA 13\.2 .* driver 550\.144\.03 .*too old.* Fix: ") as refused:
        Distributed(DistributedConfig(num_gpu=1))
    assert "gpu.driver_version" in str(refused.value)
