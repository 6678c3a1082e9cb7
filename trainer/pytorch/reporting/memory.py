"""The peak memory of a process."""

from __future__ import annotations

import resource

import torch


def peak_bytes(device: torch.device) -> int:
    """Return the peak of what torch allocated on a GPU, or of the process's resident memory on a CPU, in bytes.

    The former is without the CUDA context and without what torch's allocator holds in reserve.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    # Linux counts in KiB (getrusage(2))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
