"""The interface of a model to the training loop, which builds, shards and trains it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import torch

from trainer.common.validation import SettingsError
from trainer.pytorch.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor, nn
    from torch.distributed.tensor.parallel import ParallelStyle


@dataclass(frozen=True, kw_only=True)
class KeptValues:
    """How many values of a sample are kept for the backward pass."""

    divided: int
    """Values of which each rank of a tensor-parallel group has a part."""
    whole: int = 0
    """Values that each rank of a tensor-parallel group has in full: what it gathers before matrix products, and their
    results that are still to be added up."""

    def of_rank(self, tensor: int) -> float:
        """Return how many a rank of a group of so many keeps."""
        return self.divided / tensor + self.whole


@dataclass(frozen=True, kw_only=True)
class Activations:
    """How many values a sample has where; of whole blocks, before tensor parallelism divides them."""

    between_blocks: int
    """Values that one block passes to the next."""
    kept_by_block: Mapping[str, KeptValues]
    """Values that a block keeps for the backward pass, for each mode of activation checkpointing."""
    logits: int
    """Values that the model returns."""


@dataclass(frozen=True, kw_only=True)
class ShardingPlan:
    """How a model may be divided; module names are those of the whole model."""

    blocks: Sequence[str] = ()
    """Submodules, in the order of computation, that FSDP gathers one at a time, and that activation checkpointing and
    the compiler treat one at a time."""
    tensor: Mapping[str, ParallelStyle] = field(default_factory=dict[str, "ParallelStyle"])
    """How tensor parallelism divides submodules; without any the degree must be 1."""
    replicated: Sequence[str] = ()
    """Submodules, with all in them that has no style, that each rank of a tensor-parallel group computes whole, on
    inputs that all of them have. Each submodule with parameters has a style or is among these; parameters of the model
    itself, in no submodule, are replicated."""
    tensor_sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Sizes that the degree of tensor parallelism must divide, such as the number of heads."""
    pipelined: bool = False
    """Whether `ModelConfig.stage` can cut the model between its blocks."""
    activations: Activations | None = None
    """For estimates; without it those of activations and of messages between layers and stages are left out."""
    averages_over_batch: bool = False
    """Whether a layer depends on the other samples of the batch, as batch normalisation does."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig(ABC):
    """Base of the models' configurations; what a registered model implements."""

    model: str
    """A name, or FILE.py:NAME of a file of yours; `--model NAME --help` explains the arguments of another."""

    task: ClassVar[Task] = Task.CLASSIFICATION
    """Its task."""
    built_on_meta: ClassVar[bool] = False
    """Whether the model is built without memory and its parameters get their values from `initial_value`, shard by
    shard: for models of which a rank cannot hold the whole. Such a model has no buffers and no tied parameters."""
    reads_images: ClassVar[bool] = False
    """Whether inputs are float32 [N, channels, height, width]."""

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: channels, height and width of an image, or how many tokens."""

    @abstractmethod
    def build(self) -> nn.Module:
        """Build the whole network on torch's current device; it returns logits [N, ..., classes]."""

    def outline(self) -> nn.Module:
        """Build the whole network for its names and shapes: without memory if it is built so in training."""
        with torch.device("meta") if self.built_on_meta else nullcontext():
            return self.build()

    @abstractmethod
    def plan(self) -> ShardingPlan:
        """Return how the network may be divided."""

    @abstractmethod
    def check_data(self, sample_shape: Sequence[int], classes: int) -> None:
        """Refuse data that the network cannot read.

        Args:
            sample_shape: The shape of one input.
            classes: How many values a target may have.

        Raises:
            ValueError: naming both sides and the fix.
        """

    def refuse_misfit(self, sample_shape: Sequence[int], classes: int) -> None:
        """Refuse the data in `check_data`.

        Raises:
            SettingsError: saying what it says.
        """
        try:
            self.check_data(sample_shape, classes)
        except ValueError as error:
            raise SettingsError(str(error)) from error

    def stage(self, whole: nn.Module, blocks: Sequence[int]) -> nn.Module:
        """Return a module of some blocks of `whole`, sharing their parameters under the same names.

        It includes what comes before the first block of the model if it has that one, and what follows the last block
        if it has that one.
        """
        raise NotImplementedError(f"{self.model} cannot be cut into stages: {len(blocks)} blocks of {type(whole)}")

    def initial_value(self, name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Return the float32 value with which a parameter begins; only of models that are built on meta."""
        raise NotImplementedError(f"{self.model} initialises itself: {name} {tuple(shape)} {generator.device}")
