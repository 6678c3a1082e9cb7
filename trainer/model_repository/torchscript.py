"""TorchScript: freeze, save, load. The only module that calls torch.jit.

TorchScript is deprecated in favour of torch.export since torch 2.11 but works, and it is the format that Triton
batches. Each of its calls warns; the warnings end here, so that a test run with warnings as errors stays meaningful.
"""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from torch import Tensor, nn


def save_frozen(model: nn.Module, path: Path, example: Sequence[Tensor] | None = None) -> None:
    """Script or trace a model in evaluation mode, fold its parameters into the graph as constants, and write it.

    Args:
        model: Any module; scripting needs the part of Python that TorchScript knows.
        path: The file to write.
        example: Inputs of at least two samples to trace the model with. Tracing keeps the branches that the example
            takes. None: the model is scripted.

    Raises:
        OSError: with an error number, the file cannot be written.
    """
    # by way of memory: where the disk is full, torch's own writer ends the whole process (std::terminate)
    content = io.BytesIO()
    _forget_stale_builtins(model)
    # torch checks a trace without gradients, and its transformer layers have another path then
    with _no_deprecation_warnings(), torch.no_grad():
        jit = cast("Any", torch.jit)
        # not strict: results may be dicts
        module = jit.script(model.eval()) if example is None else jit.trace(model.eval(), tuple(example), strict=False)
        torch.jit.save(torch.jit.freeze(cast("torch.jit.ScriptModule", module)), content)  # pyright: ignore[reportUnknownMemberType]
    path.write_bytes(content.getbuffer())


def load(path: Path, device: torch.device | str = "cpu") -> torch.jit.ScriptModule:
    """Read a model that `save_frozen` wrote, or anybody's, in evaluation mode.

    Raises:
        RuntimeError: the file is damaged or was written by a newer torch.
    """
    with _no_deprecation_warnings():
        module = cast("torch.jit.ScriptModule", torch.jit.load(path, map_location=device))  # pyright: ignore[reportUnknownMemberType]
        return module.eval()


def arguments(module: torch.jit.ScriptModule) -> list[Any]:
    """Return the arguments of forward in their order, as torch describes them (`torch.Argument`)."""
    return cast("Any", module).forward.schema.arguments[1:]


def optimized(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """Return a loaded module frozen, fused and repacked for this machine's CPU; the module itself may change.

    torch's pass is wrong for some models, without an error, fails for others, and makes some slower: compare what it
    returns before use. Only ever after loading: a module optimised before it is saved does not load back.

    Raises:
        RuntimeError: the pass failed.
    """
    with _no_deprecation_warnings():
        return torch.jit.optimize_for_inference(module)


def _forget_stale_builtins(model: nn.Module) -> None:
    """Keep torch from taking an attribute of a module for an operator, which fails at random.

    Its compiler knows operators by their `id`, also of objects that are gone, whose place in memory another object gets
    (torch 2.15, torch/jit/_builtins.py: "builtin cannot be used as a value").
    """
    builtins: dict[int, str] = cast("Any", torch.jit)._builtins._get_builtin_table()  # noqa: SLF001  has no public name
    for module in model.modules():
        for value in vars(module).values():
            if not callable(value):
                builtins.pop(id(value), None)


@contextmanager
def _no_deprecation_warnings() -> Generator[None]:
    with warnings.catch_warnings():
        # a DeprecationWarning until torch 2.13, a FutureWarning since
        warnings.filterwarnings("ignore", message=r"`torch\.jit\..*` is deprecated")
        # asserts on the rank of a tensor, which is the same for every batch; `export` compares the file with the model
        warnings.filterwarnings("ignore", category=cast("Any", torch.jit).TracerWarning)
        yield
