"""The rule that holds a preview against the platform's own table of demands on workloads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from infra.admitted import demands
from policies.resources import pods
from policies.rule import Finding, Rule, RuleConfig, demand, message
from policies.values import Unknown, Value, each, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.admitted import Demand
    from policies.resources import Resource

_DEMANDS = demands()


class Admission(RuleConfig):
    """Configuration of `workloads-admitted`."""

    namespaces: tuple[str, ...] = ("athanor",)
    """Namespaces of workloads."""


def _admitted(resource: Resource, config: Admission) -> Iterator[Finding]:
    namespace = resource.namespace
    if not isinstance(namespace, Unknown) and namespace not in config.namespaces:
        return
    for one in _DEMANDS:
        broken = [finding for described in _described(resource, one) for finding in _broken(described, one)]
        # Where it will be decides only about what is wrong there.
        yield from [namespace] if broken and isinstance(namespace, Unknown) else broken


def _described(resource: Resource, one: Demand) -> list[Value]:
    """Return the parts of an object where the path of a demand begins; none if it is of another kind."""
    if one.of_pods:
        return pods(resource)
    group = resource.type.split(":")[1].rpartition("/")[0] if resource.kind else "?"
    kind = f"{group.removeprefix('core')}/{re.sub('y$', 'ie', resource.kind.lower())}s"
    return [resource.properties] if kind in one.on else []


def _broken(described: Value, one: Demand) -> Iterator[Finding]:
    for given in _values(described, one.path):
        yield from demand(given, one.allowed.holds, message(one.path, given, one.limit, one.fix))


def _values(value: Value, path: str) -> Iterator[Value]:
    """Yield what is at a path, which may lead through lists; None where there is nothing."""
    head, _, rest = path.partition(".")
    given = read(value, head.removesuffix("[]"))
    for item in each(given) if head.endswith("[]") else [given]:
        yield from _values(item, rest) if rest else [item]


RULES = (
    Rule(
        name="workloads-admitted",
        demand="Objects in the workloads' namespaces ask for nothing that the API server refuses there.",
        severity="high",
        config=Admission,
        check=_admitted,
    ),
)
