"""The buffers of replicas, such as the running statistics of batch normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from trainer.pytorch.parallel.parallel_model import ParallelModel


def take_from_main(model: ParallelModel) -> None:
    """Give the buffers of all replicas the values that rank 0 has; collective. Does nothing in other layouts.

    DistributedDataParallel does so where a step begins, so until the next one each rank has what its own samples left
    there. What is saved or judged meanwhile would be a mixture of ranks, and training would not continue with it.
    """
    if not model.computes_alone or model.layout.degrees.data == 1:
        return
    by_kind: dict[torch.dtype, list[torch.Tensor]] = {}
    for buffer in model.module.buffers():
        by_kind.setdefault(buffer.dtype, []).append(buffer)
    with torch.no_grad():
        for buffers in by_kind.values():
            flat = torch.cat([buffer.flatten() for buffer in buffers])
            dist.broadcast(flat, src=0)
            begin = 0
            for buffer in buffers:
                end = begin + buffer.numel()
                buffer.copy_(flat[begin:end].view_as(buffer))
                begin = end
