"""Builds a model for a layout: divide layers, prepare blocks, cut into stages, shard, initialise, in this order."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from trainer.common.validation import SettingsError
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.parallel_model import ParallelModel, WholeModel
from trainer.pytorch.parallel.replicated import compute_whole
from trainer.pytorch.parallel.sharding import (
    divide_layers,
    draw,
    refuse_misnamed,
    refuse_what_meta_loses,
    shard,
    silence_torch,
)
from trainer.pytorch.parallel.tied import refuse_divided_ties
from trainer.pytorch.precision import PrecisionConfig

if TYPE_CHECKING:
    from torch import nn

    from trainer.pytorch.models.model_config import ModelConfig
    from trainer.pytorch.parallel.layout import Layout


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that decides how a model is built for a layout."""

    model: ModelConfig
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    blocks: BlocksConfig = field(default_factory=BlocksConfig)
    seed: int = 0

    def check(self, layout: Layout, device: torch.device) -> None:
        """Refuse options that do not fit each other.

        Raises:
            SettingsError: naming the option, the limit and the fix.
        """
        plan = self.model.plan()
        layout.degrees.check_model(self.model.model, plan)
        if plan.averages_over_batch and self.is_sharded(layout):
            limit = f"FSDP would let each rank keep other statistics of the batch normalisation of {self.model.model}"
            fix = "--norm group, or replicas in fp32 or bf16_autocast"
            raise SettingsError(f"data_parallel_shard={layout.degrees.shard}: {limit}. Fix: {fix}")
        if self.parallel.sync_batch_norm:
            self._check_sync(layout)
        self.precision.check(only_replicas=layout.degrees.only_replicas, reads_images=self.model.reads_images)
        self.blocks.check(device.type, model=self.model.model, blocks=plan.blocks)

    def _check_sync(self, layout: Layout) -> None:
        if not self.model.plan().averages_over_batch:
            limit = f"the plan of {self.model.model} has no batch normalisation"
            fix = "leave it out, or averages_over_batch=True in its plan"
            raise SettingsError(f"sync_batch_norm=True: {limit}. Fix: {fix}")
        if not layout.degrees.only_replicas:
            raise SettingsError(
                "sync_batch_norm=True: works between replicas alone. Fix: leave it out, or the other degrees"
            )

    def build(self, layout: Layout, device: torch.device, *, draws: bool = True) -> ParallelModel:
        """Build this rank's part of the model; collective.

        Args:
            layout: Where this rank is.
            device: Where it computes.
            draws: Whether a model that is built on meta gets its first values; without them its parameters have any.

        Raises:
            SettingsError: options that do not fit each other.
        """
        self.check(layout, device)
        silence_torch()
        module, stages = self.divide(layout, device)
        if self.model.built_on_meta:
            module.to_empty(device=device)
            for stage in stages:
                _share_own(module, stage)
            if draws:
                self.draw(module, device)
        if layout.degrees.pipeline > 1:
            # imported here, for it imports the compiler: a second of every other start
            from trainer.pytorch.parallel.pipeline import PipelinedModel  # noqa: PLC0415

            return PipelinedModel(module, stages, layout, self.parallel, device, task=self.model.task)
        return WholeModel(module, layout, self.model.task, self.precision, self.parallel.microbatches)

    def draw(self, module: nn.Module, device: torch.device) -> None:
        """Give a model that was built without values its first ones; others have theirs."""
        if self.model.built_on_meta:
            draw(module, self.model, self.seed, device)

    def divide(self, layout: Layout, device: torch.device) -> tuple[nn.Module, list[nn.Module]]:
        """Return this rank's parameters as one module, and as the stages that it computes.

        Parameters of a model that is built on meta are still there.

        Raises:
            SettingsError: a model that cannot be built on meta, has parameters under several names that this layout
                would separate, or whose plan does not fit it.
        """
        plan = self.model.plan()
        if self.model.built_on_meta:
            with torch.device("meta"):
                whole = self.model.build()
            refuse_what_meta_loses(whole, self.model.model)
        else:
            whole = self._with_values(device)
        if self.parallel.sync_batch_norm:
            # imported here, for few models have it
            from trainer.pytorch.parallel.batch_norm import synchronise  # noqa: PLC0415

            whole = synchronise(whole, device)
        refuse_misnamed(whole, self.model.model, plan)
        refuse_divided_ties(whole, self.model.model, plan.blocks, layout.degrees, sharded=self.is_sharded(layout))
        if layout.tensor_mesh is not None:
            divide_layers(whole, self.model.model, plan, layout.tensor_mesh)
        self.blocks.apply(whole, plan.blocks)
        module, stages = self._stages(whole, layout)
        if layout.tensor_mesh is not None:
            for stage in stages:
                compute_whole(stage)
        if self.is_sharded(layout):
            shard(
                stages,
                plan,
                layout.data_mesh(device.type),
                self.precision.policy,
                pipelined=layout.degrees.pipeline > 1,
            )
            for stage in stages:
                _share_own(stage, module)
        elif self.precision.channels_last:
            whole.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        return module, stages

    def _with_values(self, device: torch.device) -> nn.Module:
        """Return the whole network with first values, which a GPU draws by itself, in milliseconds, also for a resume.

        A network whose code does not work there, such as one that makes arrays of its tensors, is built on the CPU.
        """
        if device.type != "cpu":
            with suppress(Exception), device:
                return self.model.build().to(device)
        return self.model.build().to(device)

    def is_sharded(self, layout: Layout) -> bool:
        """Whether FSDP holds the parameters: it also replicates where layers are divided, which DDP cannot."""
        return self.precision.precision == "bf16" or not (layout.degrees.only_replicas or layout.degrees.data == 1)

    def _stages(self, whole: nn.Module, layout: Layout) -> tuple[nn.Module, list[nn.Module]]:
        if layout.degrees.pipeline == 1:
            return whole, [whole]
        own = layout.degrees.blocks_of_stages(layout.pipeline_rank, len(self.model.plan().blocks))
        stages = [self.model.stage(whole, blocks) for blocks in own]
        # one module has all that the rank trains
        together = [index for blocks in own for index in blocks]
        module = stages[0] if len(stages) == 1 else self.model.stage(whole, together)
        return module, stages


def _share_own(source: nn.Module, target: nn.Module) -> None:
    """Let a module have the parameters that another has by itself, in no submodule: submodules are shared anyway."""
    for name, parameter in source.named_parameters(recurse=False):
        target.register_parameter(name, parameter)
