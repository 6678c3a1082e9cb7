"""Pruning: removal of the weights that matter least, and training to recover accuracy."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import torch
import torch_pruning
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import prune

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.pytorch.compression.config import CompressionConfig
    from trainer.pytorch.compression.samples import Samples

_BATCH_SIZE = 64


def without_channels(model: nn.Module, example: Tensor, sparsity: float) -> nn.Module:
    """Return a copy without the channels of smallest norm, in each layer the same share of them.

    The layer that computes the model's output keeps its size. Which channels must go together is found by
    torch-pruning (Fang et al., "DepGraph: Towards Any Structural Pruning", CVPR 2023).

    Args:
        model: On the CPU.
        example: An input of one sample or more.
        sparsity: Share of the channels to remove, rounded where layers are normalised in groups.

    Raises:
        ValueError: no channel could be removed.
    """
    smaller = copy.deepcopy(model).eval().requires_grad_(requires_grad=True)
    pruner: Any = cast("Any", torch_pruning).pruner.MagnitudePruner(
        smaller,
        example,
        importance=cast("Any", torch_pruning).importance.GroupMagnitudeImportance(p=2),
        pruning_ratio=sparsity,
        ignored_layers=[_last_layer(smaller, example)],
    )
    pruner.step()
    before, after = (sum(parameter.numel() for parameter in each.parameters()) for each in (model, smaller))
    if after == before:
        raise ValueError(f"sparsity={sparsity}: removes no channel of any layer. Fix: a higher sparsity")
    return smaller


def with_masks(model: nn.Module, sparsity: float) -> nn.Module:
    """Return a copy that computes with the smallest weights as zeros, over all layers together; see `without_masks`."""
    sparse = copy.deepcopy(model).requires_grad_(requires_grad=True)
    weights = [(layer, "weight") for layer in sparse.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    prune.global_unstructured(weights, prune.L1Unstructured, amount=sparsity)  # pyright: ignore[reportUnknownMemberType]
    return sparse


def without_masks(sparse: nn.Module) -> nn.Module:
    """Make the zeros of `with_masks` weights like others, in place."""
    for layer in sparse.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            prune.remove(layer, "weight")  # pyright: ignore[reportUnknownMemberType]
    return sparse


def fine_tune(model: nn.Module, training: Samples, config: CompressionConfig) -> nn.Module:
    """Train a pruned model for some epochs, in place; the same on every run. Return it in evaluation mode."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.fine_tune_learning_rate)
    model.train()
    with torch.random.fork_rng(devices=[]):  # pyright: ignore[reportUnknownMemberType]
        torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]  dropout
        for _ in range(config.fine_tune_epochs):
            for batch in training.shuffled(generator).batches(_BATCH_SIZE):
                optimizer.zero_grad()
                cross_entropy(model(batch.inputs), batch.labels).backward()  # pyright: ignore[reportUnknownMemberType]
                optimizer.step()  # pyright: ignore[reportUnknownMemberType]
    return model.eval()


def _last_layer(model: nn.Module, example: Tensor) -> nn.Module:
    """Return the layer with weights that runs last."""
    run: list[nn.Module] = []
    layers = [layer for layer in model.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    hooks = [layer.register_forward_hook(lambda layer, _inputs, _output: run.append(layer)) for layer in layers]
    with torch.inference_mode():
        model(example)
    for hook in hooks:
        hook.remove()
    if not run:
        raise ValueError("the model has no convolution and no linear layer: nothing can be pruned")
    return run[-1]
