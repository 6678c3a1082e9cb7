"""The norm of a gradient whose parts are on several ranks, and its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn


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
