"""A callable model from a file of either format, for serving and for measurements of training."""

from __future__ import annotations

import importlib.util
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from trainer.model_repository import compiled, torchscript
from trainer.model_repository.layout import TORCH_EXPORT_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CALLS = (b"ops.torchvision.", b"torchvision::")
"""Names of the operators in the code of TorchScript and torch.export, and in a compiled package."""
_CODE = (".py", ".json")


def register(path: Path) -> None:
    """Register torchvision's operators if a model file calls one, and if the package is there.

    Not for other files: the library takes memory. Of the package it is loaded alone, since the rest needs Pillow, and
    seconds to be imported.

    Raises:
        RuntimeError: it is not for this torch or machine.
    """
    if not _calls_torchvision(path):
        return
    package = importlib.util.find_spec("torchvision")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for library in sorted(Path(folder).glob("_C*.so")):
            try:
                cast("Any", torch.ops).load_library(library)
            except OSError as error:  # which would be one of storage, to be tried again
                raise RuntimeError(f"torchvision's operators cannot be loaded: {error}") from error


def _calls_torchvision(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            code = (archive.read(name) for name in archive.namelist() if name.endswith(_CODE))
            return any(call in text for text in code for call in _CALLS)
    except (zipfile.BadZipFile, zlib.error, EOFError):
        return False  # who loads it reports that


TORCH_TYPES = {
    "BOOL": torch.bool,
    "UINT8": torch.uint8,
    "UINT16": torch.uint16,
    "UINT32": torch.uint32,
    "UINT64": torch.uint64,
    "INT8": torch.int8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "FP16": torch.float16,
    "BF16": torch.bfloat16,
    "FP32": torch.float32,
    "FP64": torch.float64,
}
"""Element types of tensors by their names in the Open Inference Protocol."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A loaded model; call it in `torch.inference_mode`."""

    call: Callable[..., object]
    """Takes a tensor per argument, or text; returns tensors or text, alone or in tuples, lists and dicts."""
    arguments: Sequence[str]
    """Their names, in their order."""
    defaults: frozenset[str] = frozenset()
    """The arguments that may be left out."""
    keywords: frozenset[str] = frozenset()
    """The arguments that are given by name alone."""
    has_cycles: bool = False
    """Whether its contents refer to themselves, so that only the garbage collector frees it."""
    takes_dict: bool = False
    """The only argument is a dict of tensors."""


def is_exported(path: Path) -> bool:
    """Return whether a file is a program of torch.export, which takes torch's compiler to load."""
    return path.suffix == TORCH_EXPORT_SUFFIX and not compiled.is_package(path)


def load(path: Path) -> Program:
    """Read TorchScript, a program of torch.export or a compiled package (.pt2), and register the operators it calls.

    Raises:
        RuntimeError, ValueError: the file is damaged or was written by a newer torch.
    """
    register(path)
    if is_exported(path):
        from trainer.model_repository import exported  # noqa: PLC0415  imports torch's compiler

        call, names = exported.load(path)
        return Program(call=call, arguments=names, has_cycles=True)
    if path.suffix == TORCH_EXPORT_SUFFIX:
        call, names = compiled.load(path)
        return Program(call=call, arguments=names)
    return _program(torchscript.load(path))


def load_optimized(path: Path) -> Program:
    """Read a TorchScript file and optimise it for this machine's CPU; see `torchscript.optimized` for the risk.

    Raises:
        RuntimeError, ValueError: as `load`, or torch fails to optimise it.
    """
    return _program(torchscript.optimized(torchscript.load(path)))


def _program(script: torch.jit.ScriptModule) -> Program:
    arguments = torchscript.arguments(script)
    return Program(
        call=script,
        arguments=[each.name for each in arguments],
        defaults=frozenset(each.name for each in arguments if each.has_default_value()),
        keywords=frozenset(each.name for each in arguments if each.kwarg_only),
        takes_dict=[each.type.kind() for each in arguments] == ["DictType"],
    )
