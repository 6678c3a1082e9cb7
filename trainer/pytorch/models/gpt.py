"""A decoder-only transformer language model, from a few thousand parameters to 7 billion.

Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.3 (GPT-2); without
biases, dropout and tied embeddings, which keeps every size divisible and every stage of a pipeline self-contained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
)
from torch.nn.functional import gelu, scaled_dot_product_attention

from trainer.common.validation import at_least
from trainer.pytorch.models.model_config import Activations, KeptValues, ModelConfig, ShardingPlan
from trainer.pytorch.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

Size = Literal["nano", "125m", "350m", "760m", "1.3b", "2.7b", "7b"]


@dataclass(frozen=True, kw_only=True)
class _Shape:
    layers: int
    heads: int
    width: int
    context: int = 2048
    vocabulary: int = 50304
    """The 50,257 tokens of GPT-2, filled up to a multiple of 128: matrix products are faster, and more degrees fit."""


# Brown et al., "Language Models are Few-Shot Learners", 2020, table 2.1 (its 6.7B is the 7b here, its 1.3B has 24 heads
# of 85.3, here 16 of 128); nano is for tests and first steps.
_SHAPES: dict[Size, _Shape] = {
    "nano": _Shape(layers=4, heads=4, width=64, context=64, vocabulary=256),
    "125m": _Shape(layers=12, heads=12, width=768),
    "350m": _Shape(layers=24, heads=16, width=1024),
    "760m": _Shape(layers=24, heads=16, width=1536),
    "1.3b": _Shape(layers=24, heads=16, width=2048),
    "2.7b": _Shape(layers=32, heads=32, width=2560),
    "7b": _Shape(layers=32, heads=32, width=4096),
}


@dataclass(frozen=True, kw_only=True)
class GptConfig(ModelConfig):
    """The size of the language model."""

    model: Literal["gpt"] = "gpt"
    """Name of the model; `--model NAME --help` explains the arguments of another."""
    size: Size = "nano"
    """Decides everything that is not set on its own."""
    layers: int | None = None
    """Transformer blocks."""
    heads: int | None = None
    """Attention heads of a block; divides the width."""
    width: int | None = None
    """Features of a token between the blocks."""
    context: int | None = None
    """Tokens of a sample."""
    vocabulary: int | None = None
    """Values of a token."""

    task: ClassVar[Task] = Task.LANGUAGE_MODELLING
    built_on_meta: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "width", "context", "vocabulary"):
            value = cast("int | None", getattr(self, name))
            if value is not None:
                at_least(name, value, 1)
        if self.shape.width % self.shape.heads:
            raise ValueError(f"width={self.shape.width}: must be a multiple of heads={self.shape.heads}")

    @property
    def shape(self) -> _Shape:
        """The size with its replacements."""
        size = _SHAPES[self.size]
        return _Shape(
            layers=self.layers or size.layers,
            heads=self.heads or size.heads,
            width=self.width or size.width,
            context=self.context or size.context,
            vocabulary=self.vocabulary or size.vocabulary,
        )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """See `ModelConfig.input_shape`."""
        return (self.shape.context,)

    def build(self) -> Gpt:
        """Build the whole network; on the device meta, it takes no memory."""
        shape = self.shape
        blocks = {str(index): Block(shape.width, shape.heads) for index in range(shape.layers)}
        return Gpt(embedding=Embedding(shape), blocks=blocks, head=Head(shape))

    def plan(self) -> ShardingPlan:
        """Return the plan: sequence parallelism outside of the matrix products, Megatron-LM's division inside.

        Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022, figure 5.
        """
        names = [f"blocks.{index}" for index in range(self.shape.layers)]
        styles: dict[str, ParallelStyle] = {
            "embedding.tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "embedding.positions": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)),
            "head.norm": SequenceParallel(),
            "head.logits": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        }
        for name in names:
            styles |= {f"{name}.{part}": style for part, style in _block_styles().items()}
        shape = self.shape
        sizes = {"heads": shape.heads, "context": shape.context, "vocabulary": shape.vocabulary}
        return ShardingPlan(
            blocks=names, tensor=styles, tensor_sizes=sizes, pipelined=True, activations=self._activations()
        )

    def _activations(self) -> Activations:
        """Return the values of a sample.

        What a block keeps, in multiples of the features: two inputs of normalisations, two inputs of matrix products,
        query, key and value, the mixed heads, and twice 4 in the feed-forward network. Source: Korthikanti et al. 2022,
        section 4.1, whose 34 bytes are these 16 values of 2 bytes and two masks of dropout. Selective: the input and
        the results of the matrix products and of attention.

        With tensor parallelism the two inputs of matrix products are gathered, and stay so: section 4.2.2 would keep
        the part before. The results of the two row-wise products are sums that the ranks have yet to add up.
        """
        features = self.shape.context * self.shape.width
        kept = {
            "none": KeptValues(divided=14 * features, whole=2 * features),
            "selective": KeptValues(divided=9 * features, whole=2 * features),
            "full": KeptValues(divided=features),
        }
        logits = self.shape.context * self.shape.vocabulary
        return Activations(between_blocks=features, kept_by_block=kept, logits=logits)

    def stage(self, whole: nn.Module, blocks: Sequence[int]) -> Gpt:
        """Return a network of some of the blocks; see `ModelConfig.stage`."""
        assert isinstance(whole, Gpt)
        chosen = {str(index): whole.blocks[str(index)] for index in blocks}
        return Gpt(
            embedding=whole.embedding if 0 in blocks else None,
            blocks=chosen,
            head=whole.head if self.shape.layers - 1 in blocks else None,
        )

    def check_data(self, sample_shape: Sequence[int], classes: int) -> None:
        """Refuse anything but tokens of this context and vocabulary; see `ModelConfig.check_data`."""
        shape = self.shape
        if len(sample_shape) != 1:
            raise ValueError(
                f"model=gpt: reads tokens, the data has images {tuple(sample_shape)}. Fix: --model digits_cnn or resnet"
            )
        if sample_shape[0] != shape.context or classes > shape.vocabulary:
            limit = f"context={shape.context} and vocabulary={shape.vocabulary}"
            fix = f"--context {sample_shape[0]} --vocabulary {max(classes, shape.vocabulary)}"
            raise ValueError(f"model=gpt: {limit}, the data has {sample_shape[0]} and {classes}. Fix: {fix}")

    def initial_value(self, name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Return a parameter's first value; see `ModelConfig.initial_value`."""
        if name.rpartition(".")[0].endswith("norm"):
            return torch.ones(shape) if name.endswith("weight") else torch.zeros(shape)
        deviation = _DEVIATION
        if name.endswith(("attention.output.weight", "feed_forward.output.weight")):
            # each block adds two to the residual stream, whose variance would grow with the depth
            deviation /= math.sqrt(2 * self.shape.layers)
        return torch.empty(shape).normal_(0.0, deviation, generator=generator)


_DEVIATION = 0.02
"""Standard deviation of initial weights; Radford et al. 2018, section 4.1."""


def _block_styles() -> dict[str, ParallelStyle]:
    gather = {"input_layouts": Shard(1), "desired_input_layouts": Replicate()}
    return {
        "attention_norm": SequenceParallel(),
        "attention": PrepareModuleInput(**gather),
        "attention.query": ColwiseParallel(),
        "attention.key": ColwiseParallel(),
        "attention.value": ColwiseParallel(),
        "attention.output": RowwiseParallel(output_layouts=Shard(1)),
        "feed_forward_norm": SequenceParallel(),
        "feed_forward": PrepareModuleInput(**gather),
        "feed_forward.input": ColwiseParallel(),
        "feed_forward.output": RowwiseParallel(output_layouts=Shard(1)),
    }


class Gpt(nn.Module):
    """The network, or one stage of it.

    Input: tokens int64 [N, context], of a later stage features [N, context, width]. Output: logits
    [N, context, vocabulary], of an earlier stage features.
    """

    def __init__(self, *, embedding: Embedding | None, blocks: Mapping[str, nn.Module], head: Head | None) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = nn.ModuleDict(dict(blocks))
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits or features of a batch."""
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks.values():
            x = block(x)
        return x if self.head is None else self.head(x)


class Embedding(nn.Module):
    """Features of tokens and of their positions."""

    def __init__(self, shape: _Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return features [N, context, width]."""
        return self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))


class Block(nn.Module):
    """Attention and a two-layer network, each normalised first and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features after this block."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Attention(nn.Module):
    """Causal self-attention; each rank of a tensor-parallel group has some of the heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._head_width = width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the attention of each position to itself and those before it."""

        def heads(features: Tensor) -> Tensor:
            return features.view(*features.shape[:2], -1, self._head_width).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear layers, four times as wide between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.input = nn.Linear(width, 4 * width, bias=False)
        self.output = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of each position on its own."""
        return self.output(gelu(self.input(x)))


class Head(nn.Module):
    """The last normalisation and the logits of the next token."""

    def __init__(self, shape: _Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.width)
        self.logits = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits [N, context, vocabulary]."""
        return self.logits(self.norm(x))
