"""One rank of a run whose model normalises over samples: `train_with_batch_norm.py DATA OUTPUT STOP_AT HOW`.

It is asked to stop when it begins a step; 0 trains to the end. HOW is `own` for the samples of a rank, or `sync`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import nn

from tests.unit.trainer.pytorch.small_runs import StopAt
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.config import TrainConfig
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.loop import Trainer
from trainer.pytorch.models.model_config import ModelConfig, ShardingPlan
from trainer.pytorch.parallel.degrees import ParallelConfig


@dataclass(frozen=True, kw_only=True)
class NormalisingConfig(ModelConfig):
    model: Literal["normalising"] = "normalising"
    input_shape = (1, 8, 8)

    def build(self) -> nn.Module:
        layers = [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())]
        return nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, 10))

    def plan(self) -> ShardingPlan:
        return ShardingPlan(averages_over_batch=True)

    def check_data(self, sample_shape, classes) -> None:
        pass


def configuration(data_dir: Path, output: Path, *, sync: bool = False) -> TrainConfig:
    return TrainConfig(
        data=DigitsConfig(data_dir=data_dir, batch_size=128),
        output_dir=output,
        work_dir=output / "work",
        epochs=2,
        log_interval_steps=1,
        model=NormalisingConfig(),
        parallel=ParallelConfig(sync_batch_norm=sync),
        checkpoint=CheckpointConfig(keep_latest_k=10),
    )


def main() -> None:
    data_dir, output, stop_at, how = sys.argv[1:]
    trainer = Trainer(configuration(Path(data_dir), Path(output), sync=how == "sync"))
    stop_at = int(stop_at)
    try:
        trainer.train(StopAt(trainer, stop_at))
    finally:
        trainer.close()


if __name__ == "__main__":
    main()
