"""The gradient of a model whose parts are on several ranks: whether all of it is there, its norm and its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from trainer.common.validation import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

_MOST_NAMES = 6
"""Of parameters in a message."""


def refuse_missing(model: nn.Module) -> None:
    """Refuse a model with parameters that the loss does not depend on, after its first backward pass.

    Replicas could not go on: each waits for the gradients of all. In any layout such parameters have no state of the
    optimizer in a checkpoint, from which a run would then not resume.

    Raises:
        SettingsError: naming them.
    """
    missing = [name for name, each in model.named_parameters() if each.requires_grad and each.grad is None]
    if missing:
        more = len(missing) - _MOST_NAMES
        named = ", ".join(missing[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        limit = "no gradient reaches them, for the loss does not depend on them"
        fix = "Fix: leave them out of the model, use them in its forward, or set their requires_grad to False"
        raise SettingsError(f"parameters {named}: {limit}. {fix}")


def clip(parameters: Iterable[nn.Parameter], limit: float, pipeline_group: dist.ProcessGroup | None) -> float:
    """Scale the gradient of a whole model down to the L2 norm `limit`.

    Args:
        parameters: Those of this rank: whole, sharded over a mesh, or of one stage of a pipeline.
        limit: Longest allowed gradient.
        pipeline_group: The ranks that have the other stages; None without a pipeline.

    Returns:
        The norm that it had, the same on every rank; not finite if any of it was not.
    """
    parameters = list(parameters)
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()
    if pipeline_group is not None:
        squares = norm.square()
        dist.all_reduce(squares, group=pipeline_group)
        norm = squares.sqrt()
    torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm.item()
