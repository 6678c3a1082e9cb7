"""A job as the Pulumi program that declares it: what --print-program prints."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, cast

from athanor.run.recorded import given

if TYPE_CHECKING:
    from collections.abc import Iterator

    from athanor.run.description import Description

_HEAD = """import pulumi
import pulumi_kubernetes as kubernetes

from athanor import {names}

cluster = kubernetes.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))
platform = Platform.from_stack({stack!r}, cluster)

{job}(
    {name!r},
    platform,
    {args},
)
"""
_STACK = "organization/athanor/local"


def program_text(described: Description, platform: str | None) -> str:
    """Return a program that declares the job.

    Args:
        described: The job.
        platform: Name of the platform's stack; None stands for that of the local environment.
    """
    names = sorted({"Platform", described.kind, *_names(described.args)})
    return _HEAD.format(
        names=", ".join(names),
        stack=platform or _STACK,
        job=described.kind,
        name=described.name,
        args=_text(described.args, 4),
    )


def _names(value: object) -> Iterator[str]:
    """Yield the names of a description's class and of those nested in it."""
    if is_dataclass(value):
        yield type(value).__name__
        for content in given(value).values():
            yield from _names(content)
    elif isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            yield from _names(item)


def _text(value: object, indent: int) -> str:
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        return f"({', '.join(_text(item, indent) for item in items)}{',' * (len(items) == 1)})"
    if not is_dataclass(value):
        return repr(value)
    fields = given(value)
    if len(fields) <= 2 and not any(is_dataclass(content) for content in fields.values()):
        return f"{type(value).__name__}({', '.join(f'{name}={content!r}' for name, content in fields.items())})"
    space = " " * (indent + 4)
    lines = "".join(f"{space}{name}={_text(content, indent + 4)},\n" for name, content in fields.items())
    return f"{type(value).__name__}(\n{lines}{' ' * indent})"
