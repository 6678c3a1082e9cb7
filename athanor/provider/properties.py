"""Properties of the schema, derived from the fields of argument classes.

Pulumi's schema has neither unions nor kinds of text. A field that takes one of several classes becomes an object with
one property for each of them; every other field keeps its name, in camel case.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import pulumi
from pulumi.provider.experimental.util import camel_case

from infra.outputs import PlatformOutputs

_SHARES = {"gpus": "gpu_share"}
"""Fields that take a plain value or one of several classes: the name of a second property, for the classes."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of several classes, each under its own name that starts with a small letter."""

    name: str
    """Name of the type in the schema."""
    classes: Mapping[str, type]
    """Classes by the name that a program writes."""
    is_list: bool = False
    """Whether the field takes any number of them."""


@dataclass(frozen=True, kw_only=True)
class Property:
    """One property of the schema."""

    field: str
    """The field that it sets."""
    kind: Any
    """The annotation that its values fit, or a Choice."""
    required: bool


@cache
def properties(of: type) -> dict[str, Property]:
    """Return the properties of a class of arguments by their names in Python's spelling."""
    hints = get_type_hints(of)
    by_name: dict[str, Property] = {}
    for each in _fields(of):
        required = each.default is MISSING and each.default_factory is MISSING
        for name, kind in _kinds(each.name, hints[each.name]).items():
            by_name[name] = Property(field=each.name, kind=kind, required=required)
    return by_name


@cache
def schema_type(of: type) -> type:
    """Return a class with the annotations that Pulumi's analyzer reads, for a class of arguments."""
    kinds = {name: (each.kind, each.required) for name, each in properties(of).items()}
    return annotated(of.__name__, of.__doc__ or "", {name: _annotation(*kind) for name, kind in kinds.items()})


@cache
def contract_type() -> type:
    """Return the same for what a platform exports, which a workload's inputs and a platform's outputs have alike."""
    texts = {name: pulumi.Input[int if each.kind is int else str] for name, each in properties(PlatformOutputs).items()}
    required = {name for name, each in properties(PlatformOutputs).items() if each.required}
    optional = {name: kind if name in required else kind | None for name, kind in texts.items()}
    return annotated("PlatformContract", PlatformOutputs.__doc__ or "", optional)


def annotated(name: str, text: str, annotations: Mapping[str, Any]) -> type:
    """Return a class that has nothing but a name, a docstring and annotations.

    No module of that name exists: the analyzer would parse the file of one that does for each property, which takes
    five seconds, to look for texts that are not there.
    """
    return type(name, (), {"__doc__": text, "__module__": "athanor.schema", "__annotations__": dict(annotations)})


def choices_of(of: type) -> list[Choice]:
    """Return the choices among the properties of a class."""
    return [each.kind for each in properties(of).values() if isinstance(each.kind, Choice)]


def literals(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - any annotation
    """Return the words that an annotation allows; empty if it allows any."""
    of_members = [literals(member) for member in get_args(kind)] if _is_union(kind) else []
    return get_args(kind) if get_origin(kind) is Literal else tuple(word for words in of_members for word in words)


def nested_classes(kind: Any) -> list[type]:  # noqa: ANN401 - any annotation, or a Choice
    """Return the classes of arguments that an annotation names."""
    if isinstance(kind, Choice):
        return list(kind.classes.values())
    if is_dataclass(kind):
        return [_class(kind)]
    return [cls for member in get_args(kind) for cls in nested_classes(member)]


def _kinds(field: str, hint: Any) -> dict[str, Any]:  # noqa: ANN401 - any annotation
    if get_origin(hint) is Sequence:
        of_item = _kinds(field.removesuffix("s"), get_args(hint)[0])
        [item, *_] = of_item.values()
        return {field: replace(item, is_list=True) if isinstance(item, Choice) else hint}
    members = get_args(hint) if _is_union(hint) else ()
    classes = [_class(member) for member in members if is_dataclass(member)]
    if len(classes) <= 1:
        return {field: hint}
    plain = [member for member in members if member not in classes and member is not types.NoneType]
    name = _SHARES[field] if plain else field
    by_name = {cls.__name__[0].lower() + cls.__name__[1:]: cls for cls in classes}
    type_name = camel_case(name)
    choice = Choice(name=type_name[0].upper() + type_name[1:], classes=by_name)
    return {**({field: Union[tuple(plain)]} if plain else {}), name: choice}  # noqa: UP007 - of members known only now


def _annotation(kind: Any, required: bool) -> Any:  # noqa: ANN401, FBT001 - any annotation
    written = _written(kind)
    return written if required else written | None


def _written(kind: Any) -> Any:  # noqa: ANN401, PLR0911 - any annotation; one line for each kind
    if isinstance(kind, Choice):
        return list[_choice_type(kind)] if kind.is_list else _choice_type(kind)
    if is_dataclass(kind):
        return schema_type(_class(kind))
    origin, members = get_origin(kind), get_args(kind)
    if origin is Sequence:
        return list[_written(members[0])]
    if origin is Mapping:
        return dict[str, _written(members[1])]
    if origin is Literal or isinstance(kind, TypeVar):  # a platform's fields are text in its outputs
        return str
    if _is_union(kind) and len(members) == 2 and types.NoneType in members:
        return _written(next(member for member in members if member is not types.NoneType))
    return kind


_CHOICES: dict[str, type] = {}


def _choice_type(choice: Choice) -> type:
    if choice.name not in _CHOICES:
        texts = {name: schema_type(cls) | None for name, cls in choice.classes.items()}
        _CHOICES[choice.name] = annotated(choice.name, "Exactly one of these.", texts)
    return _CHOICES[choice.name]


def _is_union(hint: Any) -> bool:  # noqa: ANN401 - any annotation
    return get_origin(hint) in {Union, types.UnionType}


def _fields(cls: Any) -> Any:  # noqa: ANN401 - a dataclass, which `type` does not say
    return fields(cls)


def _class(cls: Any) -> type:  # noqa: ANN401 - is_dataclass holds of instances, too
    return cls
