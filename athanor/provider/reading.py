"""Conversion of inputs from programs in other languages into argument classes, which refuse invalid values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, cast, get_args, get_origin

from pulumi.provider.experimental.util import camel_case

from athanor.provider.properties import Choice, properties
from infra.errors import RefusalError
from infra.outputs import PlatformOutputs


def described(of: type, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - an instance of `of`
    """Return the arguments that a program wrote under the schema's names.

    Raises:
        RefusalError: as in a Python program, also for names that the schema does not have.
    """
    by_name = {camel_case(name): each for name, each in properties(of).items()}
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        if name not in by_name:
            arguments[name] = value
            continue
        each = by_name[name]
        if each.field in arguments:
            limit = f"says the same as {each.field}, which is set, too"
            raise RefusalError(name, value, limit, "omit one of them")
        arguments[each.field] = _read(name, each.kind, value)
    return of(**arguments)


def platform_outputs(given: object) -> PlatformOutputs:
    """Return a platform's outputs from those that a program passes on.

    Raises:
        RefusalError: it is something else, lacks something, or follows a newer contract.
    """
    names = {camel_case(name): name for name in properties(PlatformOutputs)}
    values = cast("dict[str, Any]", given if isinstance(given, Mapping) else {"": given})
    outputs = {names.get(name, name): value for name, value in values.items()}
    return PlatformOutputs.parse(outputs if isinstance(given, Mapping) else given, "the property platform")


def written(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values under the names that they have in the schema."""
    return {camel_case(name): value for name, value in values.items()}


def _read(name: str, kind: Any, value: Any) -> Any:  # noqa: ANN401 - any annotation and value
    if isinstance(kind, Choice):
        items = cast("list[Any] | None", value if kind.is_list and isinstance(value, list) else None)
        return _chosen(name, kind, value) if items is None else tuple(_chosen(name, kind, item) for item in items)
    if isinstance(value, float) and value.is_integer():  # the wire has one type of number
        return int(value)
    cls = next((each for each in (kind, *get_args(kind)) if is_dataclass(each)), None)
    if cls is not None and isinstance(value, Mapping):
        return described(cast("type", cls), cast("Mapping[str, Any]", value))
    origin, members = get_origin(kind), get_args(kind)
    if origin is Sequence and isinstance(value, list):
        return tuple(_read(name, members[0], item) for item in cast("list[Any]", value))
    if origin is Mapping and isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value)
        return {key: _read(name, members[1], item) for key, item in items.items()}
    return value


def _chosen(name: str, choice: Choice, value: Any) -> Any:  # noqa: ANN401 - any value
    given = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}
    chosen = [key for key, item in given.items() if item is not None]
    if len(chosen) != 1 or chosen[0] not in choice.classes:
        first = next(iter(choice.classes))
        limit = f"must have exactly one of {', '.join(choice.classes)}"
        raise RefusalError(
            name, cast("object", value), limit, f"write one with its own fields, such as {{{first}: {{…}}}}"
        )
    return _read(chosen[0], choice.classes[chosen[0]], given[chosen[0]])
