"""How long training stands still for a checkpoint of 300 MB: with torch.save, and in the trainer's two modes.

It stands still in the save itself, and in the next step from when that could change the parameters until it may.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import torch

from benchmarks.rounds import spread
from tools.tables import table
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.checkpoints.manager import CheckpointManager
from trainer.pytorch.checkpoints.saves import Saves
from trainer.pytorch.distributed import Distributed, DistributedConfig
from trainer.pytorch.models.resnet import ResNetConfig
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel import state
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from tools.progress import Progress
    from trainer.pytorch.checkpoints.config import CheckpointMode
    from trainer.training.events import EventLog
    from trainer.training.metrics import TrainingMetrics

ROUNDS = 5
_STEPS_BETWEEN = 4
_SAMPLES = 8
_NETWORK = ResNetConfig(depth=50, image_size=32, classes=1000)
"""25.6 million parameters, with AdamW three float32 values each: 307 MB."""


class _Training:
    """ResNet-50 and AdamW on one thread: the other cores are free, as those of machines with GPUs."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self._model = Recipe(model=_NETWORK).build(Layout(ParallelConfig().degrees(1), "cpu"), torch.device("cpu"))
        self._optimizer = OptimizerConfig().build(self._model.module.parameters())
        self._inputs = torch.rand(_SAMPLES, *_NETWORK.input_shape)
        self._targets = torch.arange(_SAMPLES)
        self.step(_nothing)

    def state(self) -> dict[str, Any]:
        return state.state_dict(self._model, self._optimizer)

    def step(self, before_update: Callable[[], None]) -> tuple[float, float]:
        """Do a step, and return its seconds and those of the wait before the parameters change."""
        begin = time.perf_counter()
        self._optimizer.zero_grad()
        self._model.forward_backward(self._inputs, self._targets, _nothing)
        waits = time.perf_counter()
        before_update()
        waited = time.perf_counter() - waits
        self._optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        return time.perf_counter() - begin, waited

    def steps(self, before_update: Callable[[], None], after_each: Callable[[], None]) -> tuple[float, float]:
        """Do the steps between two checkpoints; what `step` returns, summed up."""
        whole = waited = 0.0
        for _ in range(_STEPS_BETWEEN):
            seconds, wait = self.step(before_update)
            after_each()
            whole, waited = whole + seconds, waited + wait
        return whole, waited


def measure(report: Progress) -> Table:
    """Return the table: one process, the ways in turn, after one round that does not count."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    distributed = Distributed(DistributedConfig())
    try:
        # here and not in /tmp, which may be memory
        with tempfile.TemporaryDirectory(prefix=".athanor-bench-", dir=Path.cwd()) as folder:
            return _table(_Training(), distributed, Path(folder), report)
    finally:
        distributed.close()
        torch.set_num_threads(threads)


def _table(training: _Training, distributed: Distributed, folder: Path, report: Progress) -> Table:
    modes: tuple[CheckpointMode, ...] = ("sync", "async")
    ways = {mode: _saves(mode, distributed, folder / mode) for mode in modes}
    still: dict[str, list[float]] = {"torch.save": [], **{mode: [] for mode in modes}}
    slower: dict[str, list[float]] = {name: [] for name in still}
    try:
        for number in range(ROUNDS + 1):
            report.detail(f"round {number} of {ROUNDS}")
            usual, _ = training.steps(_nothing, _nothing)
            for name, way in ((name, ways.get(name)) for name in still):
                begin = time.perf_counter()
                if way:
                    way.at_interval(number + 1, training.state)
                else:
                    torch.save(training.state(), folder / "state.pt")
                paused = time.perf_counter() - begin
                after, waited = training.steps(*((way.before_update, way.look) if way else (_nothing, _nothing)))
                if way:
                    way.wait()
                if number:
                    still[name].append((paused + waited) * 1000)
                    slower[name].append((after - waited - usual) * 1000)
    finally:
        for saves in ways.values():
            saves.close()
    rows = [[name, spread(still[name], "ms", 0), spread(slower[name], "ms", 0), _ratio(still, name)] for name in still]
    columns = ["way", "training stands still", f"next {_STEPS_BETWEEN} steps longer by", "torch.save over this"]
    return table(f"A checkpoint of 300 MB, one process, {ROUNDS} rounds, median (range)", columns, rows)


def _ratio(still: dict[str, list[float]], name: str) -> str:
    return f"{statistics.median(still['torch.save']) / statistics.median(still[name]):.1f} x"


def _saves(mode: CheckpointMode, distributed: Distributed, folder: Path) -> Saves:
    folder.mkdir()
    config = CheckpointConfig(checkpoint_mode=mode, keep_latest_k=1)
    silent = SimpleNamespace(write=_nothing, on_checkpoint=_nothing, on_checkpoint_failure=_nothing)
    manager = CheckpointManager(config, folder, distributed, settings={})
    return Saves(config, manager, distributed, cast("TrainingMetrics", silent), cast("EventLog", silent))


def _nothing(*_: object, **__: object) -> None:
    """What is not reported here."""
