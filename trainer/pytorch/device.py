"""The device of a rank: one of the GPUs that its machine shows, or the CPU."""

from __future__ import annotations

import torch

from trainer.common.validation import SettingsError
from trainer.training.nvidia_driver import driver_version, shows_gpus

_ON_CPU = "or --num_gpu 0 to train on the CPU"


def choose_device(num_gpu: int | None, *, local_rank: int, local_world_size: int) -> torch.device:
    """Return where a rank computes; a GPU is the current one of this thread from then on.

    Args:
        num_gpu: GPUs of this machine to use, one per rank; 0 for the CPU. None: all that are visible.
        local_rank: Number of the rank on its machine.
        local_world_size: Ranks there.

    Raises:
        SettingsError: GPUs would be unused, are missing or cannot be used.
    """
    if num_gpu == 0 or (num_gpu is None and not shows_gpus() and not torch.cuda.device_count()):
        return torch.device("cpu")
    # First of all: device_count asks the driver's management library, which also counts GPUs that CUDA cannot use.
    if reason := _why_no_gpu():
        raise SettingsError(reason if num_gpu is None else f"num_gpu={num_gpu}: {reason}")
    present = torch.cuda.device_count()
    if num_gpu is None:
        _check_all_are_used(present, local_world_size)
    else:
        _check_requested(num_gpu, present, local_world_size)
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def _check_all_are_used(present: int, processes: int) -> None:
    if not present:
        fix = f"Fix: see what `python -m trainer.helpers.hardware` says of them, {_ON_CPU}"
        raise SettingsError(f"this machine shows GPUs, but torch can use none of them. {fix}")
    if present != processes:
        fix = f"Fix: torchrun --nproc-per-node={present}, fewer GPUs in CUDA_VISIBLE_DEVICES, {_ON_CPU}"
        limit = f"{processes} processes were started here, which use one each"
        raise SettingsError(f"this machine has {present} usable GPUs, but {limit}. {fix}")


def _check_requested(num_gpu: int, present: int, processes: int) -> None:
    if num_gpu > present:
        fix = f"Fix: request that many GPUs for the pod, {_ON_CPU}"
        raise SettingsError(f"num_gpu={num_gpu}: this machine has {present} usable GPUs. {fix}")
    if num_gpu != processes:
        fix = f"Fix: torchrun --nproc-per-node={num_gpu}"
        raise SettingsError(f"num_gpu={num_gpu}: {processes} processes were started here. {fix}")


def _why_no_gpu() -> str | None:
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
            f" ({reason}). Fix: run on nodes with a newer driver (gpu.driver_version of their pool), use an image with"
            f" an older CUDA, {_ON_CPU}"
        )
    return None
