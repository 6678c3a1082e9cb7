"""A job as the Pulumi program that declares it: the output of --print-program."""

from __future__ import annotations

from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from athanor.run.recorded import given

if TYPE_CHECKING:
    from collections.abc import Iterator

    from athanor.run.description import Description
    from athanor.runs.cluster import Cluster

_PROGRAM = """{imports}import pulumi_kubernetes as kubernetes

from athanor import {names}

{place}
{job}(
    {name!r},
    platform,
    {args},
)
"""
_IN_A_STACK = """cluster = kubernetes.Provider("cluster", kubeconfig=pulumi.Config().require_secret("kubeconfig"))
platform = Platform.from_stack({stack!r}, cluster)
"""
_IN_A_CLUSTER = """# Pulumi finds the kubeconfig by $KUBECONFIG{file}; the state gets neither it nor its path.
cluster = kubernetes.Provider("cluster", kubeconfig="", context={context!r}, cluster_identifier={server!r})
platform = Platform.from_cluster({namespace!r}, cluster)
"""


def program_in_stack(described: Description, stack: str) -> str:
    """Return a program that declares the job on the platform of a stack, and has a kubeconfig in its own settings."""
    return _text_of(described, "import pulumi\n", _IN_A_STACK.format(stack=stack))


def program_in_cluster(described: Description, cluster: Cluster, kubeconfig: str | None) -> str:
    """Return a program that declares the job for those who have a kubeconfig alone.

    Args:
        described: The job.
        cluster: The cluster, in the namespace whose platform it is.
        kubeconfig: The kubeconfig that was named; None: the one that kubectl finds.
    """
    file = f", which must be {Path(kubeconfig).resolve()}" if kubeconfig else ""
    place = _IN_A_CLUSTER.format(file=file, context=cluster.context, server=cluster.server, namespace=cluster.namespace)
    return _text_of(described, "", place)


def _text_of(described: Description, imports: str, place: str) -> str:
    names = sorted({"Platform", described.kind, *_names(described.args)})
    return _PROGRAM.format(
        imports=imports,
        names=", ".join(names),
        place=place,
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
