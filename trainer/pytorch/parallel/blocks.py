"""Treatment of each block of a model: activation checkpointing and compilation."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper,  # pyright: ignore[reportUnknownVariableType]
)
from torch.utils.checkpoint import (
    CheckpointPolicy,
    create_selective_checkpoint_contexts,  # pyright: ignore[reportUnknownVariableType]
)

from trainer.common.validation import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

_ATEN = torch.ops.aten
_SAVED = {
    _ATEN.mm.default,
    _ATEN.addmm.default,
    _ATEN.convolution.default,
    _ATEN._scaled_dot_product_flash_attention.default,  # noqa: SLF001  names of operators
    _ATEN._scaled_dot_product_flash_attention_for_cpu.default,  # noqa: SLF001
    _ATEN._scaled_dot_product_efficient_attention.default,  # noqa: SLF001
    _ATEN._scaled_dot_product_cudnn_attention.default,  # noqa: SLF001
}
"""Operations that are expensive to compute again."""


@dataclass(frozen=True, kw_only=True)
class BlocksConfig:
    """Memory and speed of the blocks of a model."""

    activation_checkpointing: Literal["none", "selective", "full"] = "none"
    """What the backward pass computes again instead of keeping it: nothing, all but matrix products, convolutions and
    attention, or everything between the blocks."""
    compile: Literal["off", "inductor", "aot_eager"] = "off"
    """Compile each block with torch.compile. `aot_eager` traces it without generating code: it shows what the compiler
    does not understand, and needs no C++ compiler."""

    def check(self, device_type: str, *, model: str, blocks: Sequence[str]) -> None:
        """Refuse a compiler that the image does not have, and a model of which there is nothing to prepare.

        Args:
            device_type: Where the model computes.
            model: Its name.
            blocks: Those of its plan.

        Raises:
            SettingsError: naming the program or the option, and the fix.
        """
        if not blocks and self != BlocksConfig():
            changed = [f"{name}={value}" for name, value in vars(self).items() if value != getattr(BlocksConfig, name)]
            limit = f"works on blocks, and the plan of {model} has none"
            raise SettingsError(f"{', '.join(changed)}: {limit}. Fix: name them in its `plan`, or leave it out")
        if self.compile != "inductor":
            return
        # inductor calls a C++ compiler for CPU kernels, Triton a C compiler for the launchers of GPU kernels
        program = os.environ.get("CXX", "g++") if device_type == "cpu" else os.environ.get("CC", "gcc")
        if shutil.which(program) is None:
            fix = "Fix: an image with that program, or --compile off"
            raise SettingsError(f"compile=inductor: needs {program}, which is not on PATH. {fix}")

    def apply(self, model: nn.Module, names: Sequence[str]) -> None:
        """Prepare the blocks of a model, in place."""
        for name in names:
            block = model.get_submodule(name)
            if self.activation_checkpointing != "none":
                block = self._recomputed(block)
                parent, _, child = name.rpartition(".")
                model.get_submodule(parent).register_module(child, block)
            if self.compile != "off":
                block.compile(backend=self.compile)  # pyright: ignore[reportUnknownMemberType]

    def _recomputed(self, block: nn.Module) -> nn.Module:
        if self.activation_checkpointing == "full":
            return checkpoint_wrapper(block)
        contexts = partial(create_selective_checkpoint_contexts, _keeps)
        return checkpoint_wrapper(block, context_fn=contexts)


def _keeps(_context: object, operator: object, *_args: object, **_kwargs: object) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operator in _SAVED else CheckpointPolicy.PREFER_RECOMPUTE
