"""Exceptions from training's rule of deterministic kernels."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def any_kernel() -> Generator[None]:
    """Allow kernels that training refuses because they may give other bits on a GPU.

    Resizing a quantised tensor counts as one of them. On a CPU, where models are compressed and measured, it is exact.
    """
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("default")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
