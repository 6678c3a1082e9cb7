"""What the trainer's tests share: prepared data, small configurations, one process or several."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from trainer import digits
from trainer.checkpoint import CheckpointConfig
from trainer.config import TrainConfig
from trainer.data import DataConfig
from trainer.distributed import Distributed, DistributedConfig
from trainer.model import ModelConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    digits.prepare(folder)
    return folder


@pytest.fixture(autouse=True)
def process_settings(monkeypatch) -> Iterator[None]:
    """One thread per process, loopback only, and torch's global switches as they were."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    workspace = os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    threads = torch.get_num_threads()
    yield
    torch.set_deterministic_debug_mode("default")
    torch.set_num_threads(threads)
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    if workspace is not None:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = workspace


@pytest.fixture
def alone() -> Iterator[Distributed]:
    """A process group of this process only."""
    distributed = Distributed(DistributedConfig())
    yield distributed
    distributed.close()


@pytest.fixture
def small(data_dir, tmp_path):
    """Make configurations of a run of 11 steps per epoch; keyword arguments replace fields of `TrainConfig`."""

    def make(**changes) -> TrainConfig:
        settings = {
            "data": DataConfig(data_dir=data_dir, batch_size=128),
            "output_dir": tmp_path / "output",
            "work_dir": tmp_path / "work",
            "run_name": "small",
            "epochs": 1,
            "log_interval_steps": 1,
            "model": ModelConfig(width=4),
            "checkpoint": CheckpointConfig(checkpoint_interval_steps=4),
        }
        return TrainConfig(**{**settings, **changes})

    return make
