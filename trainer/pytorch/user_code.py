"""Classes and functions of users' own code, from a file or from an installed package."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from trainer.common.validation import SettingsError, listed
from trainer.pytorch.source_error import reason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from _typeshed import DataclassInstance

Kind = TypeVar("Kind", bound="DataclassInstance")


def configuration(option: str, name: str, registered: Mapping[str, type[Kind]], base: type[Kind]) -> type[Kind]:
    """Return the configuration that a command line names: a registered one, of an entry point, or FILE.py:NAME.

    Args:
        option: `model` or `dataset`; entry points are in the group `athanor.models` or `athanor.datasets`.
        name: What the command line says.
        registered: The trainer's own, by name.
        base: What it must be derived from.

    Raises:
        SettingsError: there is none of that name, its code fails, or it is not such a configuration.
    """
    if name in registered:
        return registered[name]
    kind = from_file(option, name) if ":" in name else _from_package(option, name, registered)
    derived = f"a dataclass derived from {base.__module__}.{base.__name__}"
    if not (isinstance(kind, type) and issubclass(kind, base)):
        what = kind.__name__ if isinstance(kind, type) else type(kind).__name__
        raise SettingsError(f"{option}={name!r}: is {what}, must be {derived}. Fix: docs/train-your-own.md has one")
    if "__dataclass_fields__" not in vars(kind):
        fix = "Fix: @dataclass(frozen=True, kw_only=True) above its class"
        raise SettingsError(f"{option}={name!r}: {kind.__name__} must be {derived}. {fix}")
    if option in vars(kind).get("__annotations__", {}):
        limit = f"its field {option!r} is the name that --{option} gives"
        raise SettingsError(f"{option}={name!r}: {limit}. Fix: leave that field out of {kind.__name__}")
    own = [each for each in dataclasses.fields(kind) if each.name not in base.__dataclass_fields__]
    if required := [each.name for each in own if each.default is each.default_factory is dataclasses.MISSING]:
        raise SettingsError(f"{option}={name!r}: {listed(required)} of {kind.__name__} must have a default")
    if lacking := " and ".join(sorted(cast("frozenset[str]", getattr(kind, "__abstractmethods__", ())))):
        raise SettingsError(
            f"{option}={name!r}: {kind.__name__} lacks {lacking}. Fix: define what {base.__name__} asks"
        )
    return kind


def from_file(option: str, given: str) -> object:
    """Return the object that a file defines under a name.

    The file becomes a module of its own name, and its folder is searched for what it imports, as if Python ran it: so
    processes that read data can import it, too.

    Args:
        option: Which one names it.
        given: FILE.py:NAME.

    Raises:
        SettingsError: there is no such file or name, or its code fails.
    """
    file, _, name = given.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not path.is_file():
        raise SettingsError(f"{option}={given!r}: {Path.cwd()} has no such file. Fix: FILE.py:NAME")
    defined = getattr(_module(option, given, path), name, None)
    if defined is None:
        raise SettingsError(f"{option}={given!r}: {file} defines no {name!r}. Fix: a class or function of that file")
    return defined


def _module(option: str, given: str, path: Path) -> ModuleType:
    folder, name = str(path.parent.resolve()), path.stem
    if name not in sys.modules and name not in sys.stdlib_module_names and folder not in sys.path:
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a script without `if __name__ == "__main__"` ends this process
        why = reason(error, str(path))
        raise SettingsError(f"{option}={given!r}: {path} cannot be imported: {why}") from error
    origin = getattr(module, "__file__", None)
    if origin is None or not path.samefile(origin):
        other = origin or "of Python itself"
        raise SettingsError(f"{option}={given!r}: there is another module {name}, {other}. Fix: another file name")
    return module


def _from_package(option: str, name: str, registered: Mapping[str, object]) -> object:
    group = f"athanor.{option}s"
    known = entry_points(group=group)
    if name not in known.names:
        names = ", ".join((*registered, *sorted(known.names)))
        others = f"FILE.py:NAME, or the name of an entry point in the group {group}"
        raise SettingsError(f"{option}={name!r}: no {option} has that name. Fix: one of {names}, {others}")
    try:
        return known[name].load()
    except (Exception, SystemExit) as error:
        raise SettingsError(f"{option}={name!r}: {known[name].value} cannot be imported: {reason(error)}") from error
