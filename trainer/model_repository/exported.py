"""Models as torch.export writes them: the format that succeeds TorchScript. The only module that calls torch.export.

It is imported where it is used alone: it brings torch's compiler along, which takes seconds and memory.
"""

from __future__ import annotations

import io
import logging
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import torch
import torch.export

if TYPE_CHECKING:
    from collections.abc import Generator
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
        RuntimeError: the file is damaged, something else, or was written by another torch.
    """
    reasons: list[BaseException] = []
    try:
        with _collected(reasons):
            program = torch.export.load(path)
    except (RuntimeError, ValueError, zipfile.BadZipFile) as error:
        raise RuntimeError(str(reasons[0] if reasons else error).partition("\n")[0]) from error
    return program.module(), [str(name) for name in cast("tuple[object, ...]", program.graph_signature.user_inputs)]


@contextmanager
def _collected(reasons: list[BaseException]) -> Generator[None]:
    """Collect what torch.export logs, with its traceback, before it tries an older format and raises for that."""

    def collect(record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1]:
            reasons.append(record.exc_info[1])
        return False

    logger = logging.getLogger("torch.export")
    logger.addFilter(collect)
    try:
        yield
    finally:
        logger.removeFilter(collect)
