"""Models compiled ahead of time by AOTInductor: native code in a package, which needs neither compiler nor Python.

Source: PyTorch, "AOTInductor: Ahead-Of-Time Compilation for Torch.Export-ed Models".
"""

from __future__ import annotations

import io
import platform
import zipfile
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import Tensor, nn

_CODE_FOLDER = "/data/aotinductor/"
_MODEL = "model"
_RUNNERS = 4
"""Calls at the same time; more wait."""
_ANY_AVX2 = {"cpp.march": "x86-64-v3", "cpp.simdlen": 256}
"""Else the code would be for the CPU that it is compiled on, and end the process on one that lacks an instruction."""


def save(model: nn.Module, path: Path, examples: Sequence[Sequence[Tensor]], *, is_batched: bool = True) -> None:
    """Compile a model in evaluation mode; see `exported.program`.

    Raises:
        RuntimeError: there is no C++ compiler, or it fails.
        OSError: with an error number, the file cannot be written.
    """
    from torch import _inductor  # noqa: PLC0415  the compiler

    from trainer.model_repository import exported  # noqa: PLC0415  brings the compiler along

    content = io.BytesIO()
    # compiled headers are worth their time from the second model on
    settings = {"aot_inductor.precompile_headers": False} | (_ANY_AVX2 if platform.machine() == "x86_64" else {})
    with torch.no_grad():
        cast("Any", _inductor).aoti_compile_and_package(
            exported.program(model, examples, is_batched=is_batched), package_path=content, inductor_configs=settings
        )
    path.write_bytes(content.getbuffer())


def is_package(path: Path) -> bool:
    """Return whether a file is a compiled package, not a program of torch.export, which has the same suffix."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(_CODE_FOLDER in name for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def load(path: Path) -> tuple[Callable[..., object], list[str]]:
    """Return a package as a function of tensors, and names of its arguments: their paths, as in Triton `ARGS[0]`.

    Raises:
        RuntimeError: the file is damaged, or compiled for another machine or torch.
    """
    loader = cast("Any", torch)._C._aoti.AOTIModelPackageLoader  # noqa: SLF001  the public name imports the compiler
    package = loader(str(path), _MODEL, False, _RUNNERS, -1)  # noqa: FBT003  has no names for them
    given, returned = (cast("Any", pytree.treespec_loads(text)) for text in package.get_call_spec())
    arguments, keywords = pytree.tree_unflatten(range(given.num_leaves), given)
    names = [f"ARGS{pytree.keystr(place)}" for place, _ in pytree.tree_flatten_with_path(arguments)[0]]
    names += [f"KWARGS{pytree.keystr(place)}" for place, _ in pytree.tree_flatten_with_path(keywords)[0]]

    def call(*tensors: Tensor) -> object:
        return pytree.tree_unflatten(package.boxed_run(list(tensors)), returned)

    return call, [name.replace("'", "") for name in names]
