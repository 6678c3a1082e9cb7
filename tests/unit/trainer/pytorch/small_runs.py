"""What tests do with runs of the whole trainer in this process."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

from trainer.pytorch.loop import Trainer

GO_ON = SimpleNamespace(requested=False, arrived=lambda: False)


class StopAt:
    """Asks to stop when the trainer begins the given step."""

    def __init__(self, trainer, step):
        self._trainer, self._step = trainer, step

    @property
    def requested(self) -> bool:
        return self._trainer.step + 1 == self._step

    def arrived(self) -> bool:
        return False


class Relabelled:
    """The batches of a trainer with other targets."""

    def __init__(self, batches, change):
        self._batches, self._change = batches, change
        self.sampler, self.close = batches.sampler, batches.close

    def __next__(self):
        batch = next(self._batches)
        targets = batch.targets.clone()
        self._change(targets)
        return dataclasses.replace(batch, targets=targets)


def run(config, stop_at=None):
    trainer = Trainer(config)
    try:
        return trainer.train(StopAt(trainer, stop_at) if stop_at else GO_ON), trainer
    finally:
        trainer.close()


def events(config, kind=None) -> list[dict]:
    lines = (config.folders.logs / "rank-00000.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if kind in {None, event["event"]}]


def losses(config) -> dict[int, float]:
    return {event["step"]: event["loss"] for event in events(config) if event["event"] == "step"}


def evaluations(config) -> list[tuple[int, float]]:
    return [(event["step"], event["accuracy"]) for event in events(config) if event["event"] == "evaluated"]


def metric(trainer, name: str) -> float | None:
    labels = {"run": trainer.config.run_name, "rank": "0"}
    return trainer.metrics.registry.get_sample_value(f"athanor_training_{name}", labels)
