"""Validates a layout of many GPUs on one machine without any, and prints its cost for a rank.

`python -m trainer.dry_run --ranks 128 --model gpt --size 7b --batch_size 512 --data_parallel_shard 16
--tensor_parallel 8 --precision bf16`: the same code as in training divides the model, in a process group that only
pretends to have other ranks, without memory for the parameters.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from trainer.common import command_line
from trainer.common.validation import SettingsError, at_least
from trainer.pytorch.config import with_model
from trainer.pytorch.data.sampler import check_batch
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.model_config import ModelConfig  # noqa: TC001  the parser reads the annotation at run time
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.estimate import RankEstimate, estimate
from trainer.pytorch.parallel.layout import Layout
from trainer.pytorch.precision import PrecisionConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PROGRAM = "trainer.dry_run"


@dataclass(frozen=True, kw_only=True)
class DryRunConfig:
    """Validate a layout without the GPUs that it is for."""

    ranks: int
    """Ranks of the layout, one per GPU."""
    gpus_per_node: int = 8
    """GPUs of a node, which a tensor-parallel group should not leave."""
    batch_size: int = 64
    """Samples of one optimizer step over all ranks."""
    model: ModelConfig = field(default_factory=DigitsCnnConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    blocks: BlocksConfig = field(default_factory=BlocksConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self) -> None:
        at_least("ranks", self.ranks, 1)
        at_least("gpus_per_node", self.gpus_per_node, 1)
        at_least("batch_size", self.batch_size, 1)
        if self.gpus_per_node % self.parallel.tensor_parallel:
            limit = f"a tensor-parallel group would leave a node of {self.gpus_per_node} GPUs"
            raise ValueError(f"tensor_parallel={self.parallel.tensor_parallel}: {limit}. Fix: a divisor of that")

    def recipe(self) -> Recipe:
        """The recipe by which the model is built for the layout."""
        return Recipe(model=self.model, parallel=self.parallel, precision=self.precision, blocks=self.blocks)


def estimates(config: DryRunConfig) -> list[RankEstimate]:
    """Return the costs of a rank of each pipeline stage, in their order.

    Raises:
        SettingsError: the degrees do not fit the ranks, the model or the batch.
    """
    degrees = config.parallel.degrees(config.ranks)
    check_batch(config.batch_size, ranks=degrees.data, microbatches=config.parallel.microbatches)
    return [_of_rank(config, rank) for rank in range(0, config.ranks, config.ranks // degrees.pipeline)]


def _of_rank(config: DryRunConfig, rank: int) -> RankEstimate:
    recipe, device = config.recipe(), torch.device("cpu")
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=config.ranks)
    try:
        layout = Layout(config.parallel.degrees(config.ranks), device.type)
        recipe.check(layout, device)
        module, _ = recipe.divide(layout, device)
        return estimate(recipe, config.optimizer, layout, module, batch_size=config.batch_size)
    finally:
        dist.destroy_process_group()


def report(config: DryRunConfig) -> Iterator[str]:
    """Yield the lines of the report.

    Raises:
        SettingsError: see `estimates`.
    """
    degrees = config.parallel.degrees(config.ranks)
    whole = sum(parameter.numel() for parameter in config.model.outline().parameters())
    yield f"model {config.model.model}: {whole:,} parameters, {config.precision.precision}, batch {config.batch_size}"
    sizes = {
        "replicate": degrees.replicate,
        "shard": degrees.shard,
        "tensor": degrees.tensor,
        "pipeline": degrees.pipeline,
    }
    yield f"{config.ranks} ranks: " + " x ".join(f"{name} {size}" for name, size in sizes.items())
    for stage, cost in enumerate(estimates(config)):
        yield f"a rank of pipeline stage {stage + 1} of {degrees.pipeline}:" if degrees.pipeline > 1 else "a rank:"
        yield from _lines(cost, {"adamw": "AdamW", "sgd": "SGD"}[config.optimizer.optimizer])


def _lines(cost: RankEstimate, optimizer: str) -> Iterator[str]:
    yield f"  parameters             {cost.parameters:>15,}"
    yield f"  memory                 {_gib(cost.memory_bytes)}"
    yield f"    {f'state (fp32, {optimizer})':<21}{_gib(cost.state_bytes)}"
    yield f"    gathered parameters  {_gib(cost.gathered_bytes)}"
    yield f"    whole gradients      {_gib(cost.whole_gradient_bytes)}"
    yield f"    activations          {_gib(cost.activation_bytes)}"
    yield "  sent per step"
    yield f"    shard                {_gib(cost.shard_traffic_bytes)}"
    yield f"    replicate            {_gib(cost.replicate_traffic_bytes)}"
    yield f"    tensor               {_gib(cost.tensor_traffic_bytes)}"
    yield f"    pipeline             {_gib(cost.pipeline_traffic_bytes)}"


def _gib(size: int | None) -> str:
    return "    not estimated for this model" if size is None else f"{size / 2**30:>11.3f} GiB"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Raises:
        SystemExit: 2 for wrong arguments or a layout that does not fit.
    """
    words = sys.argv[1:] if arguments is None else arguments
    config = command_line.parse(with_model(DryRunConfig, words, _PROGRAM), _PROGRAM, words)
    try:
        lines = list(report(config))
    except SettingsError as error:
        print(f"python -m {_PROGRAM}: {error}", file=sys.stderr)
        sys.exit(2)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
