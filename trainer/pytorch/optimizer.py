"""The optimizer and its learning rate over time."""

from __future__ import annotations

import math
from collections.abc import Iterable  # noqa: TC003
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from trainer.common.validation import at_least, more_than


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW with linear warm-up and cosine decay to zero."""

    learning_rate: float = 3e-3
    """Highest learning rate, reached at the end of the warm-up."""
    weight_decay: float = 0.01
    """Decoupled weight decay of AdamW."""
    warmup_steps: int = 20
    """Steps over which the learning rate grows linearly from near zero."""
    gradient_clip_norm: float = 1.0
    """Largest L2 norm of the gradient of all parameters; longer gradients are scaled down to it."""
    optimizer_kernels: Literal["fused", "foreach", "single"] = "fused"
    """`fused` updates all parameters in one kernel, `foreach` with one kernel per operation, `single` one by one."""

    def __post_init__(self) -> None:
        more_than("learning_rate", self.learning_rate, 0)
        at_least("weight_decay", self.weight_decay, 0)
        at_least("warmup_steps", self.warmup_steps, 0)
        more_than("gradient_clip_norm", self.gradient_clip_norm, 0)

    def without_effect(self, total_steps: int) -> list[str]:
        """Say what does not do what it is for in a run of so many steps, and the fix."""
        if not self.warmup_steps or self.warmup_steps < total_steps:
            return []
        highest = self.learning_rate_at(total_steps - 1, total_steps)
        limit = f"the run has {total_steps} steps"
        effect = f"the learning rate only rises, to {highest:.3g} (learning_rate={self.learning_rate:g})"
        fix = f"--warmup_steps {total_steps // 10}, or fewer than {total_steps}"
        return [f"warmup_steps={self.warmup_steps}: {limit}: {effect}. Fix: {fix}"]

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.AdamW:
        """Make the optimizer."""
        return torch.optim.AdamW(
            parameters,
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            fused=self.optimizer_kernels == "fused",
            foreach=self.optimizer_kernels == "foreach",
        )

    def learning_rate_at(self, step: int, total_steps: int) -> float:
        """Return the learning rate of a step, counted from 0.

        A function of the step alone, so that there is no schedule state to save and restore.
        Source of the cosine: Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5 without restarts.
        """
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, total_steps - self.warmup_steps)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
