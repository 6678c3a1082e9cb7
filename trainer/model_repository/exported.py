"""Models in the format of torch.export, which succeeds TorchScript. The only module that calls torch.export.

It is imported where it is used alone: it brings torch's compiler along, which takes seconds and memory.
"""

from __future__ import annotations

import io
import logging
import warnings
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.export
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from torch import Tensor, nn
    from torch.export import ExportedProgram


def program(model: nn.Module, examples: Sequence[Sequence[Tensor]], *, is_batched: bool = True) -> ExportedProgram:
    """Return a model in evaluation mode as a program, which takes batches of any size if the model takes batches.

    Args:
        model: A module.
        examples: Inputs of a call or several, of at least two samples: the sizes 0 and 1 would become constants of the
            program. Other dimensions in which they differ take any size, too.
        is_batched: Whether their first dimension is the samples.
    """
    batch, any_size = torch.export.Dim("batch", min=1), torch.export.Dim.AUTO
    sizes = [list(zip(*(tensor.shape for tensor in tensors), strict=True)) for tensors in zip(*examples, strict=True)]
    dynamic = tuple(
        {
            place: batch if is_batched and place == 0 else any_size
            for place, given in enumerate(each)
            if place == 0 or len(set(given)) > 1
        }
        for each in sizes
    )
    with warnings.catch_warnings():
        # from what torchvision says of its operators' shapes
        warnings.filterwarnings("ignore", message="`create_unbacked_symint` is deprecated")
        # of recurrent layers, which have their weights in a list, too
        warnings.filterwarnings("ignore", message="The tensor attributes? .* assigned during export")
        return torch.export.export(model.eval(), tuple(examples[0]), dynamic_shapes=dynamic)


def save(model: nn.Module, path: Path, examples: Sequence[Sequence[Tensor]], *, is_batched: bool = True) -> None:
    """Write a model as a program; see `program`.

    Raises:
        OSError: with an error number, the file cannot be written.
    """
    # by way of memory, as TorchScript and for the same reason
    content = io.BytesIO()
    torch.export.save(program(model, examples, is_batched=is_batched), content)
    path.write_bytes(content.getbuffer())


def load(path: Path) -> tuple[Callable[..., object], list[str]]:
    """Return a program that `save` wrote, or anybody's, and the names of its arguments in their order.

    The tensors in a dict or tuple are arguments of their own.

    Raises:
        RuntimeError: the file is damaged, something else, or was written by another torch.
    """
    reasons: list[BaseException] = []
    try:
        with _collected(reasons):
            loaded = torch.export.load(path)
    except (RuntimeError, ValueError, zipfile.BadZipFile) as error:
        raise RuntimeError(str(reasons[0] if reasons else error).partition("\n")[0]) from error
    module, structure = loaded.module(), cast("Any", loaded.call_spec).in_spec
    names = [str(name) for name in cast("tuple[object, ...]", loaded.graph_signature.user_inputs)]
    return _on_values(module, structure), names


def _on_values(module: nn.Module, structure: Any) -> Callable[..., object]:  # noqa: ANN401  pytree's type has no name
    """Return the module as a function of the values of its arguments, one after another."""
    arguments, keywords = structure.children()
    if not keywords.children() and all(each.is_leaf() for each in arguments.children()):
        return module

    def call(*values: object) -> object:
        given, named = pytree.tree_unflatten(values, structure)
        return module(*given, **named)

    return call


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
