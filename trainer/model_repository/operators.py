"""Registration of torchvision's operators, which torch knows only once their library is loaded."""

from __future__ import annotations

import importlib.util
import zipfile
import zlib
from pathlib import Path
from typing import Any, cast

import torch

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
