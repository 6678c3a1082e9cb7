"""A network from a user's Python file: any exception in that code becomes one line with its location."""

from __future__ import annotations

from torch import nn

from trainer.common.validation import SettingsError
from trainer.pytorch.source_error import SourceError, reason
from trainer.pytorch.user_code import from_file


def build(network: str) -> nn.Module:
    """Return the result of calling `FILE.py:NAME` without arguments.

    Raises:
        SourceError: there is no such file or name, its code fails, or what it returns is not a module.
    """
    file, _, name = network.rpartition(":")
    try:
        define = from_file("network", network)
    except SettingsError as error:
        raise SourceError(str(error)) from error
    if not callable(define):
        raise SourceError(f"network={network!r}: {name} cannot be called. Fix: a class or function of {file}")
    try:
        built: object = define()
    except (Exception, SystemExit) as error:
        fix = f"Fix: a {name} that is called without arguments"
        raise SourceError(f"network={network!r}: {name}() fails: {reason(error, file)}. {fix}") from error
    if not isinstance(built, nn.Module):
        raise SourceError(f"network={network!r}: {name}() returns {type(built).__name__}; must be a torch.nn.Module")
    return built
