"""The gradient of a model whose parts are on several ranks: whether all of it is there, its mean, norm and limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from trainer.common.validation import SettingsError, listed
from trainer.pytorch.task import mean_over_counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

    from trainer.pytorch.parallel.layout import Layout


def refuse_missing(model: nn.Module) -> None:
    """Refuse a model with parameters that the loss does not depend on, after its first backward pass.

    Replicas could not go on: each waits for the gradients of all. In any layout such parameters have no state of the
    optimizer in a checkpoint, from which a run would then not resume.

    Raises:
        SettingsError: naming them.
    """
    missing = [name for name, each in model.named_parameters() if each.requires_grad and each.grad is None]
    if missing:
        limit = "no gradient reaches them, for the loss does not depend on them"
        fix = "Fix: leave them out of the model, use them in its forward, or set their requires_grad to False"
        raise SettingsError(f"parameters {listed(missing)}: {limit}. {fix}")


def clip(parameters: Iterable[nn.Parameter], limit: float, layout: Layout, *, counted: float) -> float:
    """Make the gradient of the mean loss from what `ParallelModel.forward_backward` left, no longer than `limit`.

    Args:
        parameters: Those of this rank: whole, sharded over a mesh, or of one stage of a pipeline.
        limit: Longest allowed L2 norm of the gradient of the whole model.
        layout: Where this rank is.
        counted: `Agreed.counted`, the targets that the ranks' losses are of; without any the gradient is 0.

    Returns:
        The norm of the gradient of the mean loss, the same on every rank; not finite if any of it was not.
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
    factor = mean_over_counted(layout.loss_ranks, counted)
    norm = norm * factor
    own = [each.to_local() if isinstance(each, DTensor) else each for each in parts]
    # as torch.nn.utils.clip_grads_with_norm_, but with the factor: all gradients are written once
    torch._foreach_mul_(own, factor * (limit / (norm + 1e-6)).clamp(max=1.0))  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
    return norm.item()
