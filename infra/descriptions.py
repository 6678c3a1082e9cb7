"""Base of descriptions, the arguments of jobs and services: values are validated against their annotations.

Users' programs are not type-checked: a wrong type would surface as a traceback in the engine, or in the cluster as pods
that never start. So annotations are enforced once, when a description is created. Pydantic validates them in strict
mode (True is not a number, 2 is not text), with the kinds of text from infra/kubernetes/grammar.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_type_hints

import pulumi
from pydantic import InstanceOf, TypeAdapter, ValidationError
from pydantic_core import core_schema

from infra.errors import RefusalError, choices

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_core import ErrorDetails

_T = TypeVar("_T")
_C = TypeVar("_C")
Input = Union[_T, InstanceOf[Awaitable[_T]], InstanceOf[pulumi.Output[_T]]]  # noqa: UP007 - a generic alias
"""The same as pulumi.Input, which refers to Output by a name that only the SDK's own module can resolve."""


class Masked:
    """Marks an annotation whose values are secret: `Annotated[…, Masked]`. Refusals show none of them."""


_EXPECTATIONS = {
    "int_type": "a whole number",
    "string_type": "a string",
    "bool_type": "True or False",
    "dict_type": "a mapping, such as {'name': 'value'}",
    "list_type": "a sequence, such as a tuple",
}
"""Expected values of a field, by pydantic's type of error."""


def checked(name: str = "") -> Callable[[type[_C]], type[_C]]:
    """Make a dataclass check its values against its annotations before `__post_init__` runs.

    Annotations are resolved when a value is first passed: names in them must be imported at run time. Values must be
    named, except those of fields that the dataclass itself declares with `field(kw_only=False)`.

    Args:
        name: Prefix of the fields' names in refusals: the field that usually holds such a description, for example
            `resources`. Default: no prefix.
    """

    def decorate(cls: type[_C]) -> type[_C]:
        fill = cls.__init__

        @wraps(fill)
        def make(self: _C, *unnamed: object, **values: object) -> None:
            fill(self, **_checked(cls, f"{name}." if name else "", unnamed, values))

        # Nested in another description, an instance needs no second check.
        def instance(*_: object) -> core_schema.CoreSchema:
            return core_schema.is_instance_schema(cls)

        type.__setattr__(cls, "__init__", make)
        type.__setattr__(cls, "__get_pydantic_core_schema__", instance)
        return cls

    return decorate


def require(field: str, value: object, kind: object) -> Any:  # noqa: ANN401 - of the annotated type
    """Return a value that fits an annotation; lists and dicts are copied, so that later changes have no effect.

    Raises:
        RefusalError: naming the field, or the item in it that does not fit.
    """
    if isinstance(value, Mapping):  # strict pydantic accepts only dict
        value = dict(cast("Mapping[object, object]", value))
    try:
        return _adapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        raise _refusal(field, value, kind, error.errors(include_url=False)) from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any annotation
    return TypeAdapter[Any](kind)


@cache
def _kinds(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {each.name: hints[each.name] for each in _fields(cls)}


def _fields(cls: Any) -> Any:  # noqa: ANN401 - a dataclass, which `type` does not say
    return fields(cls)


def _checked(cls: type, lead: str, unnamed: Sequence[object], values: Mapping[str, object]) -> dict[str, object]:
    kinds = _kinds(cls)
    values = _named(cls, unnamed, values)
    for name in values:
        if name not in kinds:
            raise RefusalError(f"{lead}{name}", values[name], f"{cls.__name__} has no such field", choices(name, kinds))
    missing = [
        each.name
        for each in _fields(cls)
        if each.name not in values and each.default is MISSING and each.default_factory is MISSING
    ]
    if missing:
        raise RefusalError(cls.__name__, dict(values), f"lacks {', '.join(missing)}", f"add {missing[0]}=…")
    return {name: require(f"{lead}{name}", value, kinds[name]) for name, value in values.items()}


def _named(cls: type, unnamed: Sequence[object], values: Mapping[str, object]) -> Mapping[str, object]:
    """Return the values with those that were given without names.

    Raises:
        RefusalError: they are more than the class takes without names, or one is given with its name, too.
    """
    names = [each.name for each in _fields(cls) if not each.kw_only]
    if len(unnamed) > len(names):
        later = [each.name for each in _fields(cls) if each.kw_only]
        limit = f"takes only keyword arguments{f' after {names[-1]}' if names else ''}"
        fix = f"write {later[0]}=…" if later else "omit the rest"
        raise RefusalError(cls.__name__, unnamed, limit, fix)
    positional = dict(zip(names, unnamed, strict=False))
    twice = next((name for name in positional if name in values), None)
    if twice is not None:
        both = (positional[twice], values[twice])
        raise RefusalError(cls.__name__, both, f"has {twice} twice", f"write {twice}=… once")
    return {**positional, **values}


def _refusal(field: str, value: object, kind: object, problems: Sequence[ErrorDetails]) -> RefusalError:
    """Turn pydantic's errors about one value into a refusal; a field of several types has an error for each."""
    places = [_place(field, value, problem["loc"]) for problem in problems]
    here = [problem for problem, place in zip(problems, places, strict=True) if place == places[0]]
    # The type fits and the content does not: the errors about the other types do not help.
    content = next((problem for problem in here if problem["type"] == "value_error"), None)
    given: object = (content or here[0])["input"]
    masked = Masked in getattr(kind, "__metadata__", ()) and here[0]["loc"][-1:] != ("[key]",)
    if masked:
        given = "…"
    if content and "ctx" in content:
        return RefusalError(places[0], given, *_content_refused(content["ctx"]["error"]))
    limit, fix = _type_refused(given, here)
    if isinstance(given, int | float) and any(problem["type"] == "string_type" for problem in here):
        fix = _number_in_quotes(field, value, kind, given, here[0]["loc"])
    return RefusalError(places[0], given, limit, fix)


def _number_in_quotes(field: str, value: object, kind: object, number: float, location: Sequence[int | str]) -> str:
    """Return the quoted form of a number where text is expected.

    Quotes alone may not do: "4" would be four bytes of memory. Then it is what that text would be refused with.
    """
    try:
        text = str(number)
    except ValueError:  # Python converts no number of more than 4300 digits
        return "write a shorter number, in quotes"
    if location[-1:] != ("[key]",):
        quoted = _with(value, location, text)
        try:
            _adapter(kind).validate_python(quoted, strict=True)
        except ValidationError as error:
            refused = _refusal(field, quoted, kind, error.errors(include_url=False))
            if refused.field == _place(field, value, location):
                return refused.fix
    return f'write "{text}"'


def _with(value: object, location: Sequence[int | str], item: object) -> object:
    """Return a value in which the item at a location is replaced; names of types in it are not steps."""
    for index, part in enumerate(location):
        rest = location[index + 1 :]
        if isinstance(value, Mapping) and part in value:
            mapping = cast("Mapping[object, object]", value)
            return {**mapping, part: _with(mapping[part], rest, item)}
        if isinstance(value, Sequence) and not isinstance(value, str) and isinstance(part, int):
            sequence = cast("Sequence[object]", value)
            return [*sequence[:part], _with(sequence[part], rest, item), *sequence[part + 1 :]]
    return item


def _place(field: str, value: object, location: Sequence[int | str]) -> str:
    """Return the path of an item in a value, such as `env['A']`; for a key of a mapping, that of the mapping."""
    if location[-1:] == ("[key]",):
        location = location[:-2]
    for part in location:
        if isinstance(value, Mapping) and part in value:
            field, value = f"{field}[{part!r}]", cast("Mapping[object, object]", value)[part]
        elif isinstance(value, Sequence) and isinstance(part, int):
            field, value = f"{field}[{part}]", cast("Sequence[object]", value)[part]
    return field


def _content_refused(error: Exception) -> tuple[str, str]:
    if isinstance(error, RefusalError):
        return error.limit, error.fix
    limit, _, fix = str(error).partition(". Fix: ")
    return limit, fix


def _type_refused(value: object, problems: Sequence[ErrorDetails]) -> tuple[str, str]:
    if isinstance(value, str) and any(problem["type"] == "sequence_str" for problem in problems):
        return "is a single string", f"write one item per word: {tuple(value.split())}"
    expected = list(dict.fromkeys(_expectation(problem) for problem in problems))
    limit = f"must be {' or '.join(expected)}"
    if "a whole number" in expected and isinstance(value, str) and value.isdecimal():
        return limit, f"write {value} without quotes"
    return limit, f"write {expected[0]}"


def _expectation(problem: ErrorDetails) -> str:
    if problem["type"] == "literal_error":
        return problem.get("ctx", {})["expected"]
    if problem["type"] == "is_instance_of":
        expected: str = problem.get("ctx", {})["class"]
        return _EXPECTATIONS["list_type"] if expected == "Sequence" else expected
    return _EXPECTATIONS.get(problem["type"]) or problem["msg"].removeprefix("Input should be ")
