"""The model as every Python peer has it: loaded and optimised by the same code as in our server, on one thread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trainer.model_repository import torchscript

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_WARM_UP_CALLS = 5


def load(path: str) -> Callable[[Array], Array]:
    """Return a function from a float32 batch to the logits."""
    torch.set_num_threads(1)
    script: Any = torchscript.optimized(torchscript.load(Path(path)))

    def infer(batch: Array) -> Array:
        with torch.inference_mode():
            return script(torch.from_numpy(batch)).numpy()

    return infer


def warm_up(infer: Callable[[Array], Array], sizes: range, pixels: int) -> None:
    """Call it with every size of batch, since TorchScript compiles in the first calls."""
    for size in sizes:
        for _ in range(_WARM_UP_CALLS):
            infer(torch.zeros(size, 3, pixels, pixels).numpy())
