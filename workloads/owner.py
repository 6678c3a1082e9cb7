"""The owner of a workload: the stack that declares it, and names that a program may use only once."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime import get_root_resource

from infra.errors import RefusalError
from infra.workload_labels import owner_label

if TYPE_CHECKING:
    from collections.abc import Iterable

_declared: WeakKeyDictionary[pulumi.Resource, dict[tuple[str, str], str]] = WeakKeyDictionary()
"""Owners of names, by the stack of the run and (what is named, name)."""


def own_label() -> str:
    """Return the label of the stack that runs this program."""
    return owner_label(pulumi.get_project(), pulumi.get_stack())


def claim_names(what: str, claimant: str, names: Iterable[str]) -> None:
    """Refuse a name that another workload of the program has.

    Args:
        what: What bears the names, such as "job".
        claimant: Who wants them, as the message shall name it.
        names: Names in the workloads' namespace.

    Raises:
        RefusalError: one of them is taken.
    """
    root = get_root_resource()
    if root is None:  # outside of a program: nothing is declared
        return
    taken = _declared.setdefault(root, {})
    for name in names:
        if holder := taken.get((what, name)):
            limit = f"{holder} already has this name, and {claimant} uses it too"
            raise RefusalError(f"{what} name", name, limit, "rename one of them")
        taken[what, name] = claimant
