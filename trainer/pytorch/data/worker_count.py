"""The number of processes that read ahead for a rank, by its container's cores and the space in /dev/shm."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainer.common.cpu import usable_cores
from trainer.common.validation import SettingsError
from trainer.pytorch.data.prefetch import AHEAD
from trainer.pytorch.data.transfer import PIPE_BYTES
from trainer.training.digits import DataError

if TYPE_CHECKING:
    from trainer.pytorch.data.dataset import DataConfig, Dataset

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  not a temporary file: where torch keeps what processes share
_MOST = 8
"""Most processes by default: one that reads takes a few hundred MB."""
_ON_THEIR_WAY = 2
"""Batches in shared memory besides one of each process: the one that is being pinned, and the one before it. On CPUs,
which pin none, the one of the step, one that waits for its place, and `AHEAD` more."""
_NCCL_BYTES = 640 * 2**20
"""Most that NCCL takes of it for a rank, when the first step connects the GPUs of a pod: 10 MiB per connection, 32
channels, two neighbours (workloads/resources.py). Over NVLink it is next to nothing, so at most half is left to it."""
_BYTES_OF_VALUE = 4
"""Bytes per value of images whose first one is damaged, so that their data type is not known."""


def worker_count(
    config: DataConfig, dataset: Dataset, *, batch_size: int, device: torch.device, ranks: int
) -> tuple[int, list[str]]:
    """Return how many processes read for this rank, and what its users should know of that.

    Args:
        config: Says how many, or nothing.
        dataset: The samples.
        batch_size: Samples of a batch of this rank.
        device: Where the rank computes: on a CPU, processes that read would take the cores that it computes with.
        ranks: Of this container.

    Raises:
        SettingsError: the batches of as many as are asked for do not fit into shared memory.
    """
    asked = config.workers
    count = asked or 0
    if asked is None and device.type == "cuda" and config.takes_cores:
        count = max(1, min(_MOST, usable_cores() // ranks - 1))
    if not count:
        return 0, []
    batch_bytes = _batch_bytes(dataset, batch_size)
    if batch_bytes <= PIPE_BYTES:
        return count, []
    on_gpu = device.type == "cuda"
    free = shutil.disk_usage(SHARED_MEMORY).free // ranks
    of_nccl = min(_NCCL_BYTES, free // 2) if on_gpu and ranks > 1 else 0
    others = _ON_THEIR_WAY if on_gpu else _ON_THEIR_WAY + AHEAD
    fitting = max(0, (free - of_nccl) // batch_bytes - others)
    if count <= fitting:
        return count, []
    needed = (count + others) * batch_bytes
    left = f", {_mb(of_nccl)} of them for NCCL" if of_nccl else ""
    limit = f"{_mb(needed)} of {SHARED_MEMORY} for {count} processes, and {_mb(free)} are free for each rank{left}"
    said = f"batches of {_mb(batch_bytes)} need {limit}. Fix: more shared memory (Resources(shared_memory=…) of a job)"
    if asked is not None:
        less = f"--data_workers {fitting}, " if fitting else ""
        raise SettingsError(f"data_workers={asked}: {said}, {less}or a lower --batch_size")
    return fitting, [f"data_workers: {fitting} instead of {count}: {said}"]


def _batch_bytes(dataset: Dataset, batch_size: int) -> int:
    """Return the bytes of a batch, from those of the first sample."""
    try:
        first = dataset.batch(torch.tensor([0]))
    except DataError:
        sample = torch.Size(dataset.sample_shape).numel() * _BYTES_OF_VALUE
    else:
        sample = sum(each.nbytes for each in first.tensors)
    return sample * batch_size


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
