"""The cost of a step for a rank: memory and messages, from the sizes of its shards.

Sources. Memory: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020,
section 3.1. Activations, messages of tensor parallelism: Korthikanti et al., "Reducing Activation Recomputation in
Large Transformer Models", 2022, sections 4.1 and 4.2. Microbatches in flight: Narayanan et al., "Efficient Large-Scale
Language Model Training on GPU Clusters Using Megatron-LM", 2021, section 2.2. A collective over n ranks sends
(n - 1) / n of its data from each rank in a ring, an all-reduce twice that: Patarasuk and Yuan, "Bandwidth Optimal
All-reduce Algorithms for Clusters of Workstations", 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.distributed.tensor import DTensor

if TYPE_CHECKING:
    from torch import nn

    from trainer.pytorch.models.model_config import Activations
    from trainer.pytorch.optimizer import OptimizerConfig
    from trainer.pytorch.parallel.build import Recipe
    from trainer.pytorch.parallel.layout import Layout

_FP32 = 4
_MESSAGES_OF_BLOCK = 8
"""Two gathers and two scatters of tensor parallelism in the forward pass, and as many in the backward pass."""
_REPEATED_MESSAGES = 3
"""Messages of the forward pass, which activation checkpointing repeats: all but the last, on which no gradient
depends."""


@dataclass(frozen=True, kw_only=True)
class RankEstimate:
    """Of one rank; bytes unless the name says otherwise."""

    parameters: int
    """Numbers, not bytes, that this rank keeps."""
    state_bytes: int
    """Parameters, gradients and what the optimizer keeps, in float32."""
    gathered_bytes: int
    """Parameters of other ranks while they are in use: two blocks, in a pipeline all of its stages."""
    whole_gradient_bytes: int
    """Gradients, in float32, of the parameters of other ranks, where FSDP adds them up over microbatches."""
    activation_bytes: int | None
    """Memory kept for the backward pass; None where the model does not say."""
    shard_traffic_bytes: int
    """Sent in a step to gather parameters and scatter gradients."""
    replicate_traffic_bytes: int
    """Sent in a step to sum gradients over replicas."""
    tensor_traffic_bytes: int | None
    """Sent in a step between the ranks that compute layers together; None as for activations."""
    pipeline_traffic_bytes: int | None
    """Sent in a step to the neighbouring stages; None as for activations."""

    @property
    def memory_bytes(self) -> int:
        """All that is estimated; workspaces of kernels and of NCCL come on top."""
        return self.state_bytes + self.gathered_bytes + self.whole_gradient_bytes + (self.activation_bytes or 0)


def estimate(
    recipe: Recipe, optimizer: OptimizerConfig, layout: Layout, module: nn.Module, *, batch_size: int
) -> RankEstimate:
    """Return the costs of the rank that has `module`.

    Args:
        recipe: How the model is built.
        optimizer: What trains it.
        layout: Where the rank is.
        module: Its parameters; they may be on meta.
        batch_size: Samples of a step over all ranks.
    """
    kept, gathered = _sizes(module)
    value = 2 if recipe.precision.precision == "bf16" else _FP32
    sharded = recipe.is_sharded(layout)
    degrees, pipelined = layout.degrees, layout.degrees.pipeline > 1
    # blocks are gathered for the forward and for the backward pass, and what is in none of them once
    microbatches = recipe.parallel.microbatches
    gathers = gathered if pipelined else microbatches * (gathered + sum(_block_sizes(recipe, module)))
    traffic_of_shards = _sent(degrees.shard) * (gathers * value + gathered * _FP32)
    samples = batch_size // degrees.data
    activations = recipe.model.plan().activations
    return RankEstimate(
        parameters=kept,
        state_bytes=kept * (2 + optimizer.state_values) * _FP32,
        # FSDP2 scatters gradients after the last microbatch, and has cast them to what they are reduced in by then
        whole_gradient_bytes=(gathered - kept) * _FP32 if sharded and recipe.parallel.microbatches > 1 else 0,
        gathered_bytes=_in_use(recipe, module, pipelined=pipelined) * value if sharded else 0,
        activation_bytes=_kept(recipe, layout, activations, samples, value) if activations else None,
        shard_traffic_bytes=round(traffic_of_shards) if sharded else 0,
        replicate_traffic_bytes=round(2 * _sent(degrees.replicate) * kept * _FP32),
        tensor_traffic_bytes=_tensor_traffic(recipe, layout, activations, samples * value),
        pipeline_traffic_bytes=_pipeline_traffic(layout, activations, samples * value),
    )


def _sent(ranks: int) -> float:
    return (ranks - 1) / ranks


def _sizes(module: nn.Module) -> tuple[int, int]:
    """Return how many numbers a rank keeps, and how many it has while its shards are gathered."""
    kept = gathered = 0
    for parameter in module.parameters():
        own, whole = _numbers(parameter)
        kept += own
        gathered += whole
    return kept, gathered


def _numbers(parameter: nn.Parameter) -> tuple[int, int]:
    if not isinstance(parameter, DTensor):
        return parameter.numel(), parameter.numel()
    mesh = parameter.device_mesh
    sizes = dict(zip(mesh.mesh_dim_names or (), mesh.shape, strict=True))
    divided = sizes.get("tensor", 1) if parameter.placements[-1].is_shard() and "tensor" in sizes else 1
    return parameter.to_local().numel(), parameter.numel() // divided


def _in_use(recipe: Recipe, module: nn.Module, *, pipelined: bool) -> int:
    if pipelined:
        return _sizes(module)[1]
    blocks = _block_sizes(recipe, module)
    # the one that computes and the one that is gathered meanwhile; what is in no block stays gathered
    return sum(sorted(blocks)[-2:]) + _sizes(module)[1] - sum(blocks)


def _block_sizes(recipe: Recipe, module: nn.Module) -> list[int]:
    """Return how many numbers each block has while it is gathered."""
    return [_sizes(module.get_submodule(name))[1] for name in recipe.model.plan().blocks]


def _own_blocks(recipe: Recipe, layout: Layout) -> int:
    return len(recipe.model.plan().blocks) // layout.degrees.pipeline


def _in_flight(recipe: Recipe, layout: Layout) -> float:
    """Return how many microbatches have gone forward and not yet backward through the stages of a rank."""
    pipeline, schedule = layout.degrees.pipeline, recipe.parallel.pipeline_schedule
    if pipeline == 1:
        return 1
    if schedule == "gpipe":
        return recipe.parallel.microbatches
    if schedule == "interleaved_1f1b":
        return pipeline * (1 + (pipeline - 1) / (pipeline * layout.degrees.stages_per_rank))
    return pipeline - layout.pipeline_rank


def _kept(recipe: Recipe, layout: Layout, activations: Activations, samples: int, value: int) -> int:
    mode = recipe.blocks.activation_checkpointing
    of_block = activations.kept_by_block[mode].of_rank(layout.degrees.tensor)
    of_blocks = _own_blocks(recipe, layout) * of_block * value
    microbatch = samples / recipe.parallel.microbatches
    # of the loss: the logits, and in float32 once more
    of_loss = activations.logits * (value + _FP32) if layout.is_last_stage else 0
    return round(microbatch * (of_blocks * _in_flight(recipe, layout) + of_loss))


def _tensor_traffic(recipe: Recipe, layout: Layout, activations: Activations | None, sample_values: int) -> int | None:
    """Return the traffic of the gathers and scatters of each block, and of a gather of the logits.

    The embedding's scatter is left out: it is one in the place of eight per block.
    """
    if layout.degrees.tensor == 1 or activations is None:
        return 0 if layout.degrees.tensor == 1 else None
    repeated = recipe.blocks.activation_checkpointing != "none"
    messages = _MESSAGES_OF_BLOCK + (_REPEATED_MESSAGES if repeated else 0)
    blocks = messages * _own_blocks(recipe, layout) * activations.between_blocks
    logits = activations.logits if layout.is_last_stage else 0
    return round(_sent(layout.degrees.tensor) * sample_values * (blocks + logits))


def _pipeline_traffic(layout: Layout, activations: Activations | None, sample_values: int) -> int | None:
    """Return the traffic of a rank to its neighbours: features forward, their gradients back."""
    if layout.degrees.pipeline == 1 or activations is None:
        return 0 if layout.degrees.pipeline == 1 else None
    stages = layout.degrees.pipeline * layout.degrees.stages_per_rank
    own = range(layout.pipeline_rank, stages, layout.degrees.pipeline)
    messages = sum((stage > 0) + (stage < stages - 1) for stage in own)
    return messages * activations.between_blocks * sample_values // layout.degrees.tensor
