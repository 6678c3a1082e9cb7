"""One rank of a run whose model has dropout where tensor parallelism has equal activations.

`train_with_dropout.py DATA OUTPUT STOP_AT SHARD TENSOR`: trains to a step, and prints as JSON which activations each
rank dropped in it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from tests.unit.trainer.pytorch.small_runs import StopAt
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.config import TrainConfig
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.loop import Trainer
from trainer.pytorch.models.model_config import ModelConfig, ShardingPlan
from trainer.pytorch.parallel.degrees import ParallelConfig

BATCH = 16


@dataclass(frozen=True, kw_only=True)
class DroppingConfig(ModelConfig):
    model: Literal["dropping"] = "dropping"
    input_shape = (1, 8, 8)

    def build(self) -> nn.Module:
        return nn.Sequential(
            nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.Dropout(0.5), nn.Linear(32, 10)
        )

    def plan(self) -> ShardingPlan:
        styles = {
            "1": ColwiseParallel(),
            "3": RowwiseParallel(),
            "5": ColwiseParallel(output_layouts=Replicate()),
        }
        return ShardingPlan(tensor=styles, tensor_sizes={"width": 32})

    def check_data(self, sample_shape, classes) -> None:
        pass


class Masks:
    """Which activations of the first sample were dropped in the latest step."""

    def __init__(self) -> None:
        self.latest: list[bool] = []

    def __call__(self, module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        if module.training:
            self.latest = (output[0] == 0).tolist()


def main() -> None:
    data_dir, output, stop_at, shard, tensor = Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:6])
    config = TrainConfig(
        data=DigitsConfig(data_dir=data_dir, batch_size=BATCH),
        output_dir=output,
        work_dir=output / "work",
        model=DroppingConfig(),
        parallel=ParallelConfig(data_parallel_shard=shard, tensor_parallel=tensor),
        checkpoint=CheckpointConfig(keep_latest_k=10),
    )
    trainer = Trainer(config)
    try:
        masks = Masks()
        trainer.model.get_submodule("4").register_forward_hook(masks)
        trainer.train(StopAt(trainer, stop_at))
        of_ranks = trainer.distributed.gather(masks.latest)
        if trainer.distributed.is_main:
            print(json.dumps(of_ranks))
    finally:
        trainer.close()


if __name__ == "__main__":
    main()
