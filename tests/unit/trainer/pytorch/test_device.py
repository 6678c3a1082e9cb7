"""A rank computes on a GPU of its own where the machine shows GPUs; none is left unused unless somebody asks for it."""

from __future__ import annotations

import pytest
import torch

from trainer.helpers.hardware import hardware
from trainer.pytorch.distributed import Distributed, DistributedConfig, choose_device
from trainer.training import nvidia_driver
from trainer.training.nvidia_driver import driver_version, shows_gpus

PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon Dec 30 17:44:08 UTC 2024\nGCC version:\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.09  Release Build  (dvs-builder@U22)\n"
TOO_OLD = "The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver by …"
CPU = torch.device("cpu")


@pytest.fixture
def module(tmp_path, monkeypatch):
    file = tmp_path / "version"
    monkeypatch.setattr(nvidia_driver, "KERNEL_MODULE", file)
    return file


@pytest.fixture
def machine(tmp_path, monkeypatch, module):
    """Make this a machine with so many GPU files, of which torch counts so many; returns what torch is asked for."""
    asked = []

    def of(files: int, counted: int | None = None, driver: str = OPEN):
        folder = tmp_path / "dev"
        folder.mkdir()
        for name in ("null", "nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(files))):
            (folder / name).touch()
        module.write_text(driver)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
        monkeypatch.setattr(nvidia_driver, "DEVICES", folder)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: files if counted is None else counted)
        monkeypatch.setattr(torch.cuda, "init", lambda: asked.append("init"))
        monkeypatch.setattr(torch.cuda, "set_device", asked.append)
        return asked

    return of


def fail():
    raise RuntimeError(TOO_OLD)


@pytest.mark.parametrize(("text", "version"), [(PROPRIETARY, "550.144.03"), (OPEN, "580.126.09"), ("nothing", None)])
def test_the_driver_is_what_the_kernel_module_says(module, text, version):
    module.write_text(text)
    assert driver_version() == version
    assert hardware()["driver"] == version


@pytest.mark.parametrize("num_gpu", [None, 8])
def test_each_rank_takes_the_gpu_with_its_local_number(machine, num_gpu):
    asked = machine(files=8)
    assert choose_device(num_gpu, local_rank=3, local_world_size=8) == torch.device("cuda", 3)
    assert asked == ["init", 3]


@pytest.mark.parametrize(
    ("files", "num_gpu", "processes", "words"),
    [
        (8, None, 1, ("8 usable GPUs, but 1 processes", "--nproc-per-node=8, ", "--num_gpu 0 to train on the CPU")),
        (2, None, 8, ("2 usable GPUs, but 8 processes", "--nproc-per-node=2, ", "CUDA_VISIBLE_DEVICES")),
        (2, 4, 4, ("num_gpu=4: this machine has 2 usable GPUs", "request that many GPUs for the pod")),
        (8, 4, 8, ("num_gpu=4: 8 processes", "--nproc-per-node=4")),
    ],
)
def test_gpus_without_a_process_and_processes_without_a_gpu_are_refused(machine, files, num_gpu, processes, words):
    asked = machine(files)
    with pytest.raises(ValueError, match="Fix: ") as refused:
        choose_device(num_gpu, local_rank=0, local_world_size=processes)
    assert all(word in str(refused.value) for word in words)
    assert asked == ["init"], "no rank opens a GPU that it will not use"


@pytest.mark.parametrize(("num_gpu", "processes"), [(0, 1), (0, 8), (2, 2)])
def test_gpus_stay_unused_where_somebody_asks_for_it(machine, num_gpu, processes):
    machine(files=8)
    device = choose_device(num_gpu, local_rank=0, local_world_size=processes)
    assert device == (torch.device("cuda", 0) if num_gpu else CPU)


def test_without_gpus_it_computes_on_the_cpu_and_starts_no_cuda(machine):
    """Also on a node with GPUs, all of them given to other pods: the driver's version shows there."""
    asked = machine(files=0)
    assert choose_device(None, local_rank=0, local_world_size=4) == CPU
    assert not asked


@pytest.mark.parametrize(("chosen", "visible"), [("", False), ("-1", False), ("-1,0", False), ("1", True), ("7", True)])
def test_gpus_can_be_hidden(machine, monkeypatch, chosen, visible):
    machine(files=2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert shows_gpus() is visible


def test_gpus_that_torch_cannot_use_do_not_make_it_train_on_the_cpu(machine):
    machine(files=8, counted=0)
    with pytest.raises(ValueError, match=r"shows GPUs, but torch can use none .* --num_gpu 0 to train on the CPU"):
        choose_device(None, local_rank=0, local_world_size=8)


@pytest.mark.parametrize(("num_gpu", "begin"), [(None, ""), (1, "num_gpu=1: ")])
def test_a_rank_names_the_driver_that_is_too_old(machine, monkeypatch, num_gpu, begin):
    machine(files=1, driver=PROPRIETARY)  # the management library counts GPUs whatever CUDA needs
    monkeypatch.setattr(torch.cuda, "init", fail)
    with pytest.raises(
        ValueError, match=rf"^{begin}CUDA 13\.2 .* driver 550\.144\.03 .*too old.* Fix: .*gpu\.driver_version"
    ):
        Distributed(DistributedConfig(num_gpu=num_gpu))


def test_a_machine_without_the_driver_is_said_to_have_no_gpus(machine, module, monkeypatch):
    machine(files=0)
    module.unlink()
    monkeypatch.setattr(torch.cuda, "init", fail)
    assert driver_version() is None
    with pytest.raises(ValueError, match=r"num_gpu=1: this machine has 0 usable GPUs\. Fix: request that many GPUs"):
        choose_device(1, local_rank=0, local_world_size=1)


def test_asking_for_gpus_starts_no_cuda():
    assert choose_device(None, local_rank=0, local_world_size=2) == CPU
    assert not torch.cuda.is_initialized()
