"""Utilisation of a training's GPUs by its model: MFU, model FLOPs utilisation.

Source: Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", 2022, appendix B. The operations are those
that the model needs: what activation checkpointing computes twice counts once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch

from trainer.pod_modules.athanor_gpu_peaks import gpu_peak
from trainer.pytorch.task import Task

if TYPE_CHECKING:
    from trainer.pytorch.models.model_config import ModelConfig
    from trainer.training.metrics import StepReport

logger = logging.getLogger(__name__)

_SAMPLES = 2
"""Samples of the pass that is counted: batch normalisation refuses a single one."""


class Utilization:
    """The utilisation of the GPUs of all ranks, which are taken to be equal."""

    def __init__(self, *, flops_per_sample: float, peak_flops_of_all_ranks: float) -> None:
        self._seconds_per_sample = flops_per_sample / peak_flops_of_all_ranks

    def of(self, report: StepReport) -> float:
        """Return the share of the peak in a step, 0 to 1, with all of the step's waits."""
        return self._seconds_per_sample * report.samples / report.step_seconds


def utilization(model: ModelConfig, device: torch.device, *, ranks: int) -> Utilization | None:
    """Return the function that computes the utilisation; None if the device's peak or the operations are unknown."""
    if device.type != "cuda":
        return None
    peak = gpu_peak(torch.cuda.get_device_name(device))
    if peak is None:
        return None
    try:
        flops = flops_per_sample(model)
    except Exception as error:  # noqa: BLE001  a user's model may raise anything, and a figure is not worth a run
        logger.warning("model=%s: its operations cannot be counted, so MFU is not reported: %s", model.model, error)
        return None
    return Utilization(flops_per_sample=flops, peak_flops_of_all_ranks=ranks * peak.flops)


def flops_per_sample(model: ModelConfig) -> float:
    """Return the floating-point operations of a forward and a backward pass for one sample.

    Counted are matrix products, convolutions and attention, of the whole model on the device meta, which computes
    nothing: neither the layout nor the kernels change the count. A multiplication and an addition are two operations;
    causal attention counts like attention to all tokens, as in the source.

    Raises:
        Exception: whatever a model raises that cannot be called without values.
    """
    # imported here, for it imports triton, which only GPUs need
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415

    with torch.device("meta"):
        module = model.build()
        kind = torch.int64 if model.task is Task.LANGUAGE_MODELLING else torch.float32
        inputs = torch.zeros(_SAMPLES, *model.input_shape, dtype=kind)
        with FlopCounterMode(display=False) as counter:
            logits = module(inputs)
            targets = torch.zeros(logits.shape[:-1], dtype=torch.int64)
            model.task.loss_sum(logits, targets).backward()  # pyright: ignore[reportUnknownMemberType]
    return counter.get_total_flops() / _SAMPLES
