"""Why torch cannot use the GPUs of a node: a driver that is older than the image's CUDA."""

from __future__ import annotations

import torch

from trainer.pytorch.nvidia_driver import driver_version


def why_no_gpu() -> str | None:
    """Return why CUDA does not start although the node has NVIDIA's driver; None where it starts or has none."""
    driver = driver_version()
    if driver is None:
        return None
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition(". ")[0]
        return (
            f"CUDA {torch.version.cuda} of this image does not start with NVIDIA's driver {driver} of the node"
            f" ({reason}). Fix: run on nodes with a newer driver (gpu.driver_version of their pool), or use an image"
            " with an older CUDA"
        )
    return None
