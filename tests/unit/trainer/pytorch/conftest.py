"""What the tests of PyTorch training share: small configurations, one process or several."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from tests.ports import held_port
from tests.unit.trainer.pytorch.small_runs import run
from trainer.pytorch import measurement
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.config import TrainConfig
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.distributed import Distributed, DistributedConfig
from trainer.pytorch.loop import Outcome
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.warm_python import WarmProcess

REPOSITORY = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def process_settings(monkeypatch) -> Iterator[None]:
    """One thread, loopback only, no GPU of this machine, few timed calls; torch's global switches as they were."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(measurement, "_CALLS", 10)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_GLOO_LAZY_INIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING"):
        # set first, so that what a test's trainer leaves behind is gone with the test
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    workspace = os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    threads = torch.get_num_threads()
    yield
    torch.set_deterministic_debug_mode("default")
    torch.backends.cudnn.benchmark = False
    torch.set_num_threads(threads)
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    if workspace is not None:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = workspace


@pytest.fixture(scope="session")
def ranks_of(trainer_imported) -> Callable[..., AbstractContextManager[list[WarmProcess]]]:
    """Run a module as so many ranks, which get the variables of torchrun; what is left at the end of the block is
    killed."""

    @contextmanager
    def running(module: str, count: int, *arguments: object) -> Iterator[list[WarmProcess]]:
        with held_port() as port:
            job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
            started: list[WarmProcess] = []
            try:
                for rank in range(count):
                    own = {**job, "RANK": rank, "LOCAL_RANK": rank}
                    variables = {name: str(value) for name, value in own.items()}
                    started.append(trainer_imported.start(module, *arguments, variables=variables))
                yield started
            finally:
                for process in started:
                    process.kill()
                    process.wait()
                    process.stdout.close()

    return running


@pytest.fixture(scope="session")
def run_ranks(ranks_of) -> Callable[..., list[str]]:
    """Run a module as so many ranks to its end; return what each of them printed."""

    def run_all(module: str, count: int, *arguments: object) -> list[str]:
        with ranks_of(module, count, *arguments) as started:
            said = [process.stdout.read() for process in started]
            assert [process.wait() for process in started] == [0] * count, "\n".join(said)
        return said

    return run_all


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
            "data": DigitsConfig(data_dir=data_dir, batch_size=128),
            "output_dir": tmp_path / "output",
            "work_dir": tmp_path / "work",
            "run_name": "small",
            "epochs": 1,
            "log_interval_steps": 1,
            "model": DigitsCnnConfig(width=4),
            "checkpoint": CheckpointConfig(checkpoint_interval_steps=4),
        }
        return TrainConfig(**{**settings, **changes})

    return make


@pytest.fixture
def uninterrupted(small, tmp_path):
    config = small(output_dir=tmp_path / "uninterrupted", epochs=2)
    outcome, trainer = run(config)
    assert outcome is Outcome.FINISHED
    return config, trainer
