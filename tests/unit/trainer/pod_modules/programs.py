"""A model whose losses depend on all random numbers, and runs that are stopped, for the tests of frameworks."""

from __future__ import annotations

import json
import os
import signal
import traceback
import warnings
from typing import TYPE_CHECKING

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

SAMPLES = torch.arange(32.0).reshape(8, 4) / 32
"""Eight, so an epoch has four batches of two."""


class Model(torch.nn.Module):
    """A layer with dropout; asks its own process to stop in its pass number `stop_in`, 0 for never."""

    def __init__(self, seed: int, stop_in: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        self._passes, self._stop_in = 0, stop_in

    def loss(self, samples: Tensor) -> Tensor:
        if self.training:
            self._passes += 1
            if self._passes == self._stop_in:
                os.kill(os.getpid(), signal.SIGTERM)
        return torch.nn.functional.mse_loss(self.layers(samples).squeeze(1), samples.sum(1))


def in_child(work: Callable[[], object]) -> int:
    """Do something in a forked process, which ends with its status; return its id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python 3.12, if another test's server left a thread
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - printed, for the test's output
        traceback.print_exc()
    os._exit(status)


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def shuffled() -> DataLoader:
    return DataLoader(TensorDataset(SAMPLES), batch_size=2, shuffle=True)


def said(capsys: pytest.CaptureFixture[str]) -> list[dict]:
    """Return the lines of JSON that were printed since the last call."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith('{"')]


def stopped(train: Callable[..., object], capsys: pytest.CaptureFixture[str], *arguments, **settings) -> list[dict]:
    """Train until the program ends itself as after SIGTERM; return the lines of JSON that it printed."""
    with pytest.raises(SystemExit) as ended:
        train(*arguments, **settings)
    assert ended.value.code == 143
    return said(capsys)


def losses(lines: list[dict]) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in lines if "loss" in line]
