"""The gradient of a model whose parts are on several ranks: completeness, mean, norm and clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from trainer.common.validation import SettingsError, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor, nn

    from trainer.pytorch.parallel.layout import Layout

_ROUNDING = 1e-3
"""Tolerance for a norm: how much ranks may differ that compute the same, where kernels add up in any order."""


def refuse_missing(model: nn.Module) -> None:
    """Refuse a model with parameters that the loss does not depend on, after its first backward pass.

    Replicas could not continue: each waits for the gradients of all. In any layout such parameters have no state of the
    optimizer in a checkpoint, from which a run would then not resume.

    Raises:
        SettingsError: naming them.
    """
    missing = [name for name, each in model.named_parameters() if each.requires_grad and each.grad is None]
    if missing:
        limit = "no gradient reaches them, for the loss does not depend on them"
        fix = "Fix: leave them out of the model, use them in its forward, or set their requires_grad to False"
        raise SettingsError(f"parameters {listed(missing)}: {limit}. {fix}")


def refuse_unequal(model: nn.Module, layout: Layout) -> None:
    """Refuse a plan of tensor parallelism by which ranks compute replicated parameters from different inputs.

    Each would train with the gradient of its own part, as of a normalisation that sees a part of the sequence. Called
    after a backward pass; collective.

    Raises:
        SettingsError: naming the parameters.
    """
    if layout.tensor_mesh is None:
        return
    norms: dict[str, Tensor] = {}
    for name, each in model.named_parameters():
        gradient = each.grad
        if _is_whole(each) and _is_whole(gradient):
            norms[name] = torch.nn.utils.get_total_norm([gradient.to_local()])
    if not norms:
        return
    own = torch.stack(list(norms.values()))
    of_ranks = [torch.empty_like(own) for _ in range(layout.degrees.tensor)]
    dist.all_gather(of_ranks, own, group=layout.tensor_mesh.get_group())
    together = torch.stack(of_ranks)
    spread = together.amax(0) - together.amin(0)
    unequal = [name for name, differs in zip(norms, spread > _ROUNDING * together.amax(0), strict=True) if differs]
    if unequal:
        limit = "the ranks of a tensor-parallel group compute them from different inputs, so their gradients differ"
        fix = "Fix: in the model's plan, a style such as SequenceParallel, or inputs that each rank has whole"
        raise SettingsError(f"parameters {listed(unequal)}: {limit}. {fix}")


def _is_whole(tensor: Tensor | None) -> TypeGuard[DTensor]:
    """Whether each rank of a tensor-parallel group, which is the last dimension of a mesh, has a tensor whole."""
    return isinstance(tensor, DTensor) and tensor.placements[-1].is_replicate()


def clip(parameters: Iterable[nn.Parameter], limit: float, layout: Layout, *, counted: Tensor) -> Tensor:
    """Make the gradient of the mean loss from what `ParallelModel.forward_backward` left, no longer than `limit`.

    Args:
        parameters: Those of this rank: whole, sharded over a mesh, or of one stage of a pipeline.
        limit: Longest allowed L2 norm of the gradient of the whole model.
        layout: Where this rank is.
        counted: `Agreement.counted`, the targets that the ranks' losses are of; without any the gradient is 0.

    Returns:
        The norm of the gradient of the mean loss, no dimensions, the same on every rank; not finite if any of it was
        not. On a GPU it is only queued, as all that is done here.
    """
    parts = [each.grad for each in parameters if each.grad is not None]
    norm = torch.nn.utils.get_total_norm(parts)
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()
    if layout.pipeline_group is not None:
        squares = norm.square()
        dist.all_reduce(squares, group=layout.pipeline_group)
        norm = squares.sqrt()
    # the gradient of the ranks' losses is divided by their number, that of the mean loss by what they have counted
    factor = (layout.loss_ranks / counted.clamp(min=1)).to(norm)
    norm = norm * factor
    own = [each.to_local() if isinstance(each, DTensor) else each for each in parts]
    # as torch.nn.utils.clip_grads_with_norm_, but with the factor: all gradients are written once
    if own:
        torch._foreach_mul_(own, factor * (limit / (norm + 1e-6)).clamp(max=1.0))  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
    return norm
