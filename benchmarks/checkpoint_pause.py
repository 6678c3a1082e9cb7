"""How long training stands still for a checkpoint of 300 MB: with torch.save, and in the trainer's two modes."""

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

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from tools.progress import Progress
    from trainer.pytorch.checkpoints.config import CheckpointMode
    from trainer.training.events import EventLog
    from trainer.training.metrics import TrainingMetrics

ROUNDS = 7
_STEPS_BETWEEN = 20
_PARAMETERS = 25_000_000
"""With AdamW three float32 values each: 300 MB."""
_LAYERS = 10
_WIDTH = 1024


class _Training:
    """300 MB of AdamW's state, and steps on one thread: the other cores are free, as those of machines with GPUs."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        size = _PARAMETERS // _LAYERS
        self.parameters = {f"layer.{index}": torch.nn.Parameter(torch.randn(size)) for index in range(_LAYERS)}
        self.optimizer = torch.optim.AdamW(self.parameters.values())
        for parameter in self.parameters.values():
            parameter.grad = torch.randn_like(parameter)
        self.optimizer.step()
        self._factor = torch.randn(_WIDTH, _WIDTH)

    def state(self) -> dict[str, Any]:
        moments = self.optimizer.state_dict()["state"]
        return {
            "model": {name: parameter.detach() for name, parameter in self.parameters.items()},
            "optimizer": {str(number): dict(values) for number, values in moments.items()},
        }

    def steps(self, after_each: Callable[[], None]) -> float:
        """Do the steps between two checkpoints, and return their seconds."""
        begin = time.perf_counter()
        for _ in range(_STEPS_BETWEEN):
            for _ in range(2):
                torch.mm(self._factor, self._factor)
            after_each()
        return time.perf_counter() - begin


def measure(report: Progress) -> Table:
    """Return the table: one process, the ways in turn, after one round that does not count."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    distributed = Distributed(DistributedConfig())
    try:
        # here and not in /tmp, which may be memory
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
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
            usual = training.steps(_nothing)
            for name, way in ((name, ways.get(name)) for name in still):
                begin = time.perf_counter()
                if way:
                    way.at_interval(number + 1, training.state)
                else:
                    torch.save(training.state(), folder / "state.pt")
                paused = time.perf_counter() - begin
                after = training.steps(way.look if way else _nothing)
                if way:
                    way.wait()
                if number:
                    still[name].append(paused * 1000)
                    slower[name].append((after - usual) * 1000)
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
