"""The optimizer and its learning rate schedule."""

from __future__ import annotations

import math
from collections.abc import Iterable  # noqa: TC003
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from trainer.common.validation import at_least, below_one, between, more_than


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """How a gradient changes the parameters, and at which learning rate over the steps of a run."""

    optimizer: Literal["adamw", "sgd"] = "adamw"
    """`adamw`, or `sgd`: stochastic gradient descent with momentum."""
    learning_rate: float = 3e-3
    """Highest learning rate, reached at the end of the warm-up."""
    weight_decay: float = 0.01
    """Of AdamW decoupled from the gradient; of SGD added to it, as a multiple of the weights."""
    weight_decay_on: Literal["matrices", "all"] = "matrices"
    """Which parameters decay: `matrices` are those with two dimensions or more, which leaves out biases and the scales
    of normalisations."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Of AdamW: how much of the averages of gradients and of their squares a step keeps, each 0 to below 1."""
    adam_epsilon: float = 1e-8
    """Of AdamW: what is added to the root of the average of squares, by which it divides."""
    sgd_momentum: float = 0.9
    """Of SGD: how much of the former update a step keeps, 0 to below 1."""
    schedule: Literal["cosine", "linear", "constant", "wsd"] = "cosine"
    """The learning rate after the warm-up: `cosine` and `linear` fall until the end of the run, `constant` stays, and
    `wsd` (warm-up, stable, decay) stays until the last steps, in which it falls linearly."""
    minimum_learning_rate: float = 0.0
    """What the learning rate falls to."""
    decay_fraction: float = 0.1
    """Of `wsd`: the share of the run's steps in which the learning rate falls, 0 to 1."""
    warmup_steps: int = 20
    """Steps over which the learning rate grows linearly from near zero."""
    gradient_clip_norm: float = 1.0
    """Largest L2 norm of the gradient of all parameters; longer gradients are scaled down to it."""
    optimizer_kernels: Literal["fused", "foreach", "single"] = "fused"
    """`fused` updates all parameters in one kernel, `foreach` with one kernel per operation, `single` one by one."""

    def __post_init__(self) -> None:
        more_than("learning_rate", self.learning_rate, 0)
        at_least("weight_decay", self.weight_decay, 0)
        for beta in self.adam_betas:
            below_one("adam_betas", beta)
        more_than("adam_epsilon", self.adam_epsilon, 0)
        below_one("sgd_momentum", self.sgd_momentum)
        between("minimum_learning_rate", self.minimum_learning_rate, 0, self.learning_rate)
        between("decay_fraction", self.decay_fraction, 0, 1)
        at_least("warmup_steps", self.warmup_steps, 0)
        more_than("gradient_clip_norm", self.gradient_clip_norm, 0)

    def without_effect(self, total_steps: int) -> list[str]:
        """Say what does not do what it is for in a run of so many steps, and the fix."""
        defaults = OptimizerConfig()
        needed = {
            "adam_betas": ("optimizer", ("adamw",)),
            "adam_epsilon": ("optimizer", ("adamw",)),
            "sgd_momentum": ("optimizer", ("sgd",)),
            "decay_fraction": ("schedule", ("wsd",)),
            "minimum_learning_rate": ("schedule", ("cosine", "linear", "wsd")),
        }
        messages = [
            f"{name}={getattr(self, name)}: has no effect with {option}={getattr(self, option)}. "
            f"Fix: --{option} {' or '.join(choices)}, or leave it out"
            for name, (option, choices) in needed.items()
            if getattr(self, name) != getattr(defaults, name) and getattr(self, option) not in choices
        ]
        if self.warmup_steps and self.warmup_steps >= total_steps:
            highest = self.learning_rate_at(total_steps - 1, total_steps)
            limit = f"the run has {total_steps} steps"
            effect = f"the learning rate only rises, to {highest:.3g} (learning_rate={self.learning_rate:g})"
            fix = f"--warmup_steps {total_steps // 10}, or fewer than {total_steps}"
            messages.append(f"warmup_steps={self.warmup_steps}: {limit}: {effect}. Fix: {fix}")
        return messages

    @property
    def state_values(self) -> int:
        """Float32 numbers that the optimizer keeps for each parameter: both moments, or the momentum."""
        return 2 if self.optimizer == "adamw" else int(self.sgd_momentum > 0)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Make the optimizer; the groups of its parameters are the same on every rank, though one may be empty."""
        parameters = list(parameters)
        groups: list[dict[str, Any]] = [{"params": parameters}]
        if self.weight_decay_on == "matrices":
            matrices = [each for each in parameters if each.ndim > 1]
            others = [each for each in parameters if each.ndim <= 1]
            groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
        how: dict[str, Any] = {
            "lr": self.learning_rate,
            "weight_decay": self.weight_decay,
            "fused": self.optimizer_kernels == "fused",
            "foreach": self.optimizer_kernels == "foreach",
        }
        if self.optimizer == "sgd":
            return torch.optim.SGD(groups, momentum=self.sgd_momentum, **how)
        return torch.optim.AdamW(groups, betas=self.adam_betas, eps=self.adam_epsilon, **how)

    def learning_rate_at(self, step: int, total_steps: int) -> float:
        """Return the learning rate of a step, counted from 0.

        A function of the step alone, so that there is no schedule state to save and restore.
        Sources: of the cosine Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5 without restarts; of `wsd` Hu et
        al., "MiniCPM", 2024, section 4.
        """
        begin = self.warmup_steps
        if step < begin:
            return self.learning_rate * (step + 1) / begin
        if self.schedule == "wsd":
            begin = max(begin, total_steps - round(self.decay_fraction * total_steps))
        progress = min(1.0, max(0, step - begin) / max(1, total_steps - begin))
        left = {
            "cosine": 0.5 * (1 + math.cos(math.pi * progress)),
            "linear": 1 - progress,
            "constant": 1.0,
            "wsd": 1 - progress,
        }[self.schedule]
        return self.minimum_learning_rate + (self.learning_rate - self.minimum_learning_rate) * left
