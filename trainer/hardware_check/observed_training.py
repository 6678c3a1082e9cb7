"""An observed training run: `python -m trainer.hardware_check.observed_training DIR whole|steps|5 …`.

Everything after the second word is for `trainer.train`. `steps` ends after the last step, `whole` also saves, evaluates
and publishes, and a number waits after that step until it is asked to stop. `observed-<rank>.json` there says on
which device the rank computed and how often, in each step, its program waited for the GPU:
`torch.cuda.set_sync_debug_mode` warns of each operation that does.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainer.hardware_check import older_torch
from trainer.pytorch import loop, program
from trainer.pytorch.processes import end_with

if TYPE_CHECKING:
    from collections.abc import Generator

    from trainer.training.signals import StopRequest

_WARNING = "called a synchronizing CUDA operation"
"""Torch's warning about each (c10/cuda/CUDAFunctions.cpp, `warn_or_error_on_sync`)."""

_POLL_SECONDS = 0.01
_TRAINER = "Trainer"
"""Name by which the program takes the class from its own module."""


class Observed:
    """Observations of the rank of this process."""

    def __init__(self) -> None:
        self.device = "none"
        self.per_step: list[int] = []
        self.places: Counter[str] = Counter()

    @contextmanager
    def step(self, device: torch.device) -> Generator[None]:
        """Count how often a step waits for its GPU."""
        self.device = str(device)
        if device.type != "cuda":
            yield
            self.per_step.append(0)
            return
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                yield
        finally:
            torch.cuda.set_sync_debug_mode("default")
        waits = [each for each in said if _WARNING in str(each.message)]
        self.per_step.append(len(waits))
        self.places.update(f"{each.filename}:{each.lineno}" for each in waits)
        for each in said:
            if each not in waits:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)

    def write(self, folder: Path) -> None:
        """Write what was seen, for the process that started this one."""
        content = {"device": self.device, "synchronisations": self.per_step, "places": dict(self.places.most_common())}
        path = folder / f"observed-{os.environ.get('RANK', '0')}.json"
        path.write_text(json.dumps(content), encoding="utf-8")


def main() -> None:
    """Train.

    Raises:
        SystemExit: as `trainer.train`.
    """
    folder, until, *words = sys.argv[1:]
    older_torch.adapt()
    observed = Observed()
    sys.argv = ["trainer.train", *words]
    setattr(program, _TRAINER, _observing(observed, until))
    try:
        program.run()
    finally:
        observed.write(Path(folder))


def _observing(observed: Observed, until: str) -> type[loop.Trainer]:
    class ObservedTrainer(loop.Trainer):
        """The trainer, each step of it watched."""

        def train_step(self, *, stop_requested: bool) -> bool:
            with observed.step(self.distributed.device):
                stops = super().train_step(stop_requested=stop_requested)
            while str(self.step) == until and self._stop is not None and not self._stop.requested:
                time.sleep(_POLL_SECONDS)
            return stops

        def _finish(self, stop: StopRequest) -> bool:
            return super()._finish(stop) if until == "whole" else True

    return ObservedTrainer


if __name__ == "__main__":
    end_with(main)
