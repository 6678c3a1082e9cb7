"""The nodes that a pod may use, and their free capacity: Volcano's predicates, for use in an explanation.

Selectors, node affinity, taints, readiness and resources are evaluated; spreading and affinity between pods are not
(for those, Volcano's own message is printed).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from operator import gt, lt
from typing import TYPE_CHECKING

from athanor.inspection.gpus import NO_POOL, allocatable, is_gpu, pool_of, requests, used_by_node
from athanor.inspection.objects import Amounts, Object, added, condition, name_of
from infra.node_labels import POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from athanor.inspection.jobs import Role
    from athanor.inspection.objects import Snapshot

_KEEPS_AWAY = {"NoSchedule", "NoExecute"}
_NAMED = 5
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """The shortage that keeps some of a role's pods from a node."""

    role: Role
    placed: int
    """Number of waiting pods that could have a node now."""
    resource: str
    """Resource that is short."""
    each: Fraction
    """Request of one pod."""
    free: Fraction
    """Free amount on all nodes that it may use."""
    largest: Fraction
    """The most that is free on one of them."""
    biggest_node: Fraction
    """The most that one of them has, used or not."""
    nodes: Sequence[Object]
    """Nodes that it may use."""

    @property
    def where(self) -> str:
        """Name these nodes: by their pools, or where a cluster has none of ours by themselves."""
        pools = sorted({pool_of(node) for node in self.nodes})
        if NO_POOL not in pools:
            return f"the pools it may use ({', '.join(pools)})"
        names = [name_of(node) for node in self.nodes]
        return f"the nodes it may use ({', '.join([*names[:_NAMED], *(['…'] if len(names) > _NAMED else [])])})"


def _has(labels: dict[str, str], expression: Object) -> bool:
    key, values = expression["key"], expression.get("values", [])
    present, value = key in labels, labels.get(key, "")
    tests: dict[str, Callable[[], bool]] = {
        "In": lambda: present and value in values,
        "NotIn": lambda: not present or value not in values,
        "Exists": lambda: present,
        "DoesNotExist": lambda: not present,
        "Gt": lambda: _compares(value, values, gt),
        "Lt": lambda: _compares(value, values, lt),
    }
    # Nobody checks the template of a Volcano Job: what no node could mean, none has.
    return tests.get(expression.get("operator", ""), lambda: False)()


def _compares(value: str, values: Sequence[str], holds: Callable[[int, int], bool]) -> bool:
    """Whether both are numbers, as Kubernetes reads them, and compare so."""
    numbers = [int(text) for text in (value, *values[:1]) if _NUMBER.fullmatch(text)]
    return len(numbers) == 2 and holds(*numbers)


def selects(spec: Object, node: Object) -> bool:
    """Whether a pod's node selector and required node affinity take a node."""
    labels: dict[str, str] = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    required = _required(spec)
    fields = {"metadata.name": name_of(node)}
    return required is None or any(
        all(_has(labels, each) for each in term.get("matchExpressions", []))
        and all(_has(fields, each) for each in term.get("matchFields", []))
        for term in required
    )


def _required(spec: Object) -> list[Object] | None:
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required["nodeSelectorTerms"]


def wanted_nodes(spec: Object) -> str:
    """Return in words which nodes a pod selects: `pool a10`, `zone=b`; empty for any."""
    words = [f"pool {value}" if key == POOL_LABEL else f"{key}={value}" for key, value in _selected(spec).items()]
    return " and ".join(words)


def _selected(spec: Object) -> dict[str, str]:
    terms = _required(spec) or []
    expressions: list[Object] = terms[0].get("matchExpressions", []) if len(terms) == 1 else []
    one_of = {each["key"]: " or ".join(each["values"]) for each in expressions if each.get("operator") == "In"}
    return {**one_of, **spec.get("nodeSelector", {})}


_STATES = {
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "not ready",
    "node.kubernetes.io/unschedulable": "cordoned",
}
"""States of a node that Kubernetes itself marks by a taint; it outlives the condition for a moment."""


def refusal(spec: Object, node: Object) -> str:
    """Return why a node that a pod selects does not take it, whatever is free there; empty if it does."""
    if condition(node, "Ready").get("status") in {"False", "Unknown"}:
        return "not ready"
    if node["spec"].get("unschedulable"):
        return "cordoned"
    for taint in node["spec"].get("taints", []):
        if taint["effect"] in _KEEPS_AWAY and not any(_tolerates(each, taint) for each in spec.get("tolerations", [])):
            return _STATES.get(taint["key"]) or f"taint {taint['key']}={taint.get('value', '')}:{taint['effect']}"
    return ""


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def shortage(snapshot: Snapshot, roles: Sequence[Role]) -> Shortage | None:
    """Return the shortage of the gang, by filling the free nodes with its waiting pods in order; None if all fit."""
    used = used_by_node(snapshot)
    free = {name_of(node): _left(allocatable(node), used.get(name_of(node), Amounts())) for node in snapshot.nodes}
    for role in roles:
        nodes = [each for each in snapshot.nodes if selects(role.template, each) and not refusal(role.template, each)]
        if not nodes:
            continue  # nothing is short: see `why_no_node.unmatched`
        asked = added([requests(role.template), Amounts({"pods": Fraction(1)})])
        before = {name_of(node): free[name_of(node)] for node in nodes}
        missing = role.waiting
        for node in nodes:
            here = min(missing, _room(asked, free[name_of(node)]))
            free[name_of(node)] = _left(free[name_of(node)], Amounts({key: here * asked[key] for key in asked}))
            missing -= here
        if missing:
            return _shortage(role, role.waiting - missing, asked, before, nodes)
    return None


def _shortage(
    role: Role, placed: int, asked: Amounts, free: Mapping[str, Amounts], nodes: Sequence[Object]
) -> Shortage:
    def pods_of(kind: str) -> Fraction | int:
        return sum(max(0, left[kind] // asked[kind]) for left in free.values())

    short = min(_positive(asked), key=lambda kind: (pods_of(kind), not is_gpu(kind)))
    return Shortage(
        role=role,
        placed=placed,
        resource=short,
        each=asked[short],
        free=sum((max(left[short], Fraction(0)) for left in free.values()), start=Fraction(0)),
        largest=max(left[short] for left in free.values()),
        biggest_node=max(allocatable(node)[short] for node in nodes),
        nodes=nodes,
    )


def _positive(asked: Amounts) -> list[str]:
    return [kind for kind in asked if asked[kind] > 0]


def _room(asked: Amounts, left: Amounts) -> int:
    """Return how many such pods fit into what is left of a node."""
    return max(0, int(min(left[kind] // asked[kind] for kind in _positive(asked))))


def _left(there: Amounts, taken: Amounts) -> Amounts:
    return Amounts({key: value - taken[key] for key, value in there.items()})
