"""A network from anybody's Python file: whatever that code raises becomes one line that says where."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from trainer.pytorch.source_error import SourceError, reason

if TYPE_CHECKING:
    from types import ModuleType

_MODULE_NAME = "network"


def build(network: str) -> nn.Module:
    """Return what `FILE.py:NAME` gives when it is called without arguments.

    Raises:
        SourceError: there is no such file or name, its code fails, or what it returns is not a module.
    """
    file, _, name = network.rpartition(":")
    define = getattr(_run(network, file), name, None)
    if not callable(define):
        raise SourceError(f"network={network!r}: {file} defines no {name!r}. Fix: a class or function of that file")
    try:
        built: object = define()
    except (Exception, SystemExit) as error:
        fix = f"Fix: a {name} that is called without arguments"
        raise SourceError(f"network={network!r}: {name}() fails: {reason(error, file)}. {fix}") from error
    if not isinstance(built, nn.Module):
        raise SourceError(f"network={network!r}: {name}() returns {type(built).__name__}; must be a torch.nn.Module")
    return built


def _run(network: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_MODULE_NAME, file) if Path(file).is_file() else None
    if spec is None or spec.loader is None:
        raise SourceError(f"network={network!r}: no such file. Fix: FILE.py:NAME")
    module = importlib.util.module_from_spec(spec)
    # dataclasses, and TorchScript for named tuples, look for a class's module there
    sys.modules[_MODULE_NAME] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script without `if __name__ == "__main__"` ends this process
        raise SourceError(f"network={network!r}: {file} cannot be imported: {reason(error, file)}") from error
    return module
