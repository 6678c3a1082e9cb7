"""Settings of the process: kernels that give the same bits again, on CPUs always, on GPUs where it is asked for."""

from __future__ import annotations

import os

import pytest
import torch

from trainer.pytorch.runtime import RuntimeConfig

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ERROR = 2


def test_on_cpus_other_kernels_are_refused():
    assert RuntimeConfig().apply(CPU, processes_per_node=1) == []
    assert torch.get_deterministic_debug_mode() == ERROR


def test_on_gpus_speed_comes_first_and_that_is_said():
    [note] = RuntimeConfig().apply(GPU, processes_per_node=1)
    assert note.startswith("deterministic_on_gpus=False: ")
    assert note.endswith("Fix: --deterministic_on_gpus, at the cost of speed")
    assert torch.get_deterministic_debug_mode() == 0
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    assert torch.backends.cudnn.benchmark
    RuntimeConfig(cudnn_benchmark=False).apply(GPU, processes_per_node=1)
    assert not torch.backends.cudnn.benchmark


def test_on_gpus_the_same_bits_can_be_had_without_filling_memory():
    torch.utils.deterministic.fill_uninitialized_memory = True
    assert RuntimeConfig(deterministic_on_gpus=True).apply(GPU, processes_per_node=1) == []
    assert torch.get_deterministic_debug_mode() == ERROR
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not torch.utils.deterministic.fill_uninitialized_memory
    assert not torch.backends.cudnn.benchmark


def test_neither_is_both():
    assert RuntimeConfig(deterministic=False).apply(CPU, processes_per_node=1) == []
    assert torch.get_deterministic_debug_mode() == 0
    with pytest.raises(ValueError, match="deterministic_on_gpus=True: needs deterministic"):
        RuntimeConfig(deterministic=False, deterministic_on_gpus=True)
