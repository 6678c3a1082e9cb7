"""In which numbers a model computes, and how images lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PrecisionConfig:
    """Kinds of numbers; parameters, optimizer state and the reduction of gradients are float32 in any case."""

    precision: Literal["fp32", "bf16_autocast", "bf16"] = "fp32"
    """`bf16_autocast` computes matrix products and convolutions in bfloat16, for replicas only. `bf16` computes
    everything in bfloat16 with copies of the float32 parameters (FSDP2's mixed precision)."""
    channels_last: bool = False
    """Keep the channels of a pixel next to each other: faster convolutions on GPUs with bf16."""

    def check(self, *, only_replicas: bool, reads_images: bool) -> None:
        """Refuse what the layout or the model does not allow.

        Args:
            only_replicas: Whether every rank has the whole model.
            reads_images: Whether inputs have channels.

        Raises:
            ValueError: naming the option and the fix.
        """
        if self.precision == "bf16_autocast" and not only_replicas:
            limit = "is for replicas of the whole model"
            raise ValueError(f"precision=bf16_autocast: {limit}. Fix: --precision bf16 for sharded ones")
        if self.channels_last and not reads_images:
            raise ValueError("channels_last=True: the model reads no images. Fix: leave it out")

    @property
    def policy(self) -> MixedPrecisionPolicy:
        """FSDP2's policy."""
        if self.precision == "bf16":
            return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        return MixedPrecisionPolicy()

    def autocast(self, device: torch.device) -> torch.autocast:
        """Return the context of a forward pass."""
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16_autocast")

    def arrange(self, inputs: Tensor) -> Tensor:
        """Return a batch of inputs in the configured memory format."""
        return inputs.contiguous(memory_format=torch.channels_last) if self.channels_last else inputs
