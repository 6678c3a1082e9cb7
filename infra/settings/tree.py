"""Traversal of the settings models: the models that a field may hold, and the one that an error's location names."""

from __future__ import annotations

import ast
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from textwrap import dedent
from typing import TYPE_CHECKING, cast, get_args

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo


def models_in(field: FieldInfo) -> tuple[type[BaseModel], ...]:
    """Return the models a field holds, directly, as an option, as one of several kinds or as items of a list."""
    return tuple(_models(field.annotation))


def is_row(field: FieldInfo) -> bool:
    """Whether a field is something to set by itself, not just the parent of other keys."""
    models = models_in(field)
    return len(models) != 1 or is_many(field) or field.default is None


def is_many(field: FieldInfo) -> bool:
    """Whether a field holds a list of models."""
    return getattr(field.annotation, "__origin__", None) is tuple


def kind_of(model: type[BaseModel]) -> str | None:
    """Return the value of `mode` that chooses a model among several kinds, if it is one of such."""
    mode = model.model_fields.get("mode")
    return cast("str", mode.default) if mode is not None else None


def every_field(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo, str]]:
    """Yield each field with its key, such as `alicloud.node_pools[].gpu.sharing(mig).profile`, and its description."""
    for name, field in model.model_fields.items():
        yield prefix + name, field, descriptions(model).get(name, "")
        models = models_in(field)
        for nested in models:
            kind = f"({kind_of(nested)})" if len(models) > 1 else ""
            yield from every_field(nested, f"{prefix}{name}{kind}{'[]' if is_many(field) else ''}.")


@cache
def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the text under each field of a model by the field's name, read from the source when it is asked for.

    (pydantic's own option for it reads the source of every model whenever the settings are imported.)
    """
    texts: dict[str, str] = {}
    for base in (each for each in reversed(model.__mro__) if each is not BaseModel and issubclass(each, BaseModel)):
        definition = ast.parse(dedent(getsource(base))).body[0]
        assert isinstance(definition, ast.ClassDef)
        for field, text in pairwise(definition.body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    texts[name] = cleandoc(words)
                case _:
                    pass
    return texts


def model_at(root: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    """Follow an error's location down; stays at the last model where a plain dict or list goes deeper."""
    candidates: tuple[type[BaseModel], ...] = (root,)
    for step in location:
        field = next((info for model in candidates if (info := model.model_fields.get(str(step)))), None)
        chosen = [model for model in candidates if kind_of(model) == step]
        if field is not None:
            candidates = models_in(field) or candidates[:1]
        elif chosen:  # pydantic puts the kind itself into the location
            candidates = tuple(chosen)
    return candidates[0]


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]
