"""Models as torch.export writes them: the format that succeeds TorchScript. The only module that calls torch.export.

It is imported where it is used alone: it brings torch's compiler along, which takes seconds and memory.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, cast

import torch
import torch.export

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn


def save(model: nn.Module, path: Path, example: Tensor) -> None:
    """Write a model in evaluation mode that takes batches of any size.

    Args:
        model: A module of one input.
        path: The file to write.
        example: An input of at least two samples: the sizes 0 and 1 would become constants of the program.

    Raises:
        OSError: with an error number, the file cannot be written.
    """
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(model.eval(), (example,), dynamic_shapes=({0: batch},))
    # by way of memory, as TorchScript and for the same reason
    content = io.BytesIO()
    torch.export.save(program, content)
    path.write_bytes(content.getbuffer())


def load(path: Path) -> tuple[nn.Module, list[str]]:
    """Return a model that `save` wrote, and the names of its arguments in their order.

    Raises:
        RuntimeError: the file is damaged or was written by a newer torch.
    """
    program = torch.export.load(path)
    return program.module(), [str(name) for name in cast("tuple[object, ...]", program.graph_signature.user_inputs)]
