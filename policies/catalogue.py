"""All rules of the pack."""

from __future__ import annotations

from typing import Any

from policies import (
    access,
    admission,
    ceilings,
    credentials,
    data,
    exposure,
    images,
    namespaces,
    node_pools,
    pod_resources,
    pod_security,
    tags,
)
from policies.rule import Rule, StackRule

AREAS: dict[str, tuple[Rule[Any] | StackRule[Any], ...]] = {
    "What the internet reaches": exposure.RULES,
    "What containers may do": pod_security.RULES,
    "What containers use": (*pod_resources.RULES, *pod_resources.STACK_RULES),
    "What workloads ask for": admission.RULES,
    "Images": images.RULES,
    "Namespaces": (*namespaces.RULES, *namespaces.STACK_RULES),
    "Rights": access.RULES,
    "Secrets": credentials.RULES,
    "Data": data.RULES,
    "Node pools": (*node_pools.RULES, *node_pools.STACK_RULES),
    "Tags": tags.RULES,
    "Ceilings": ceilings.STACK_RULES,
}
RULES: tuple[Rule[Any], ...] = tuple(rule for area in AREAS.values() for rule in area if isinstance(rule, Rule))
STACK_RULES: tuple[StackRule[Any], ...] = tuple(
    rule for area in AREAS.values() for rule in area if isinstance(rule, StackRule)
)
