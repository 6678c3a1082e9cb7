"""Rules about rights, in the cluster and in the account."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from policies.rule import Finding, Rule, RuleConfig, demand, message
from policies.values import Unknown, Value, each, entries, label, plain, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.resources import Resource

_RAM_POLICY = "alicloud:ram/policy:Policy"
_RAM_ATTACHMENTS = frozenset(
    {
        "alicloud:ram/groupPolicyAttachment:GroupPolicyAttachment",
        "alicloud:ram/rolePolicyAttachment:RolePolicyAttachment",
        "alicloud:ram/userPolicyAttachment:UserPolicyAttachment",
    }
)
_EVERYBODY = frozenset({"system:anonymous", "system:authenticated", "system:serviceaccounts", "system:unauthenticated"})
_ADMINISTRATORS = frozenset({"cluster-admin", "system:masters"})
_ALL_OF_THE_CLUSTER = frozenset({"admin", "edit", "system:kube-controller-manager", "system:node"})
"""Roles with rights on all namespaces' Secrets or pods, if they are bound for the whole cluster."""
_CONTROLLERS = "system:controller:"
_BECOMING_ANOTHER = frozenset({"bind", "escalate", "impersonate"})
_BEYOND_ITSELF = {"nodes/proxy": None, "serviceaccounts/token": {"create"}, "signers": {"approve", "sign"}}
"""Resources that lead to others' rights, with the verbs that do (Kubernetes, "RBAC Good Practices")."""
_FULL_ACCESS = re.compile(r"AdministratorAccess|Aliyun\w*FullAccess")
"""The cloud's own policies that allow everything, or every action of a service, on every resource."""


def _wildcards(role: Resource, _: RuleConfig) -> Iterator[Finding]:
    if role.kind not in {"ClusterRole", "Role"}:
        return
    for place, rule in enumerate(each(read(role.properties, "rules"))):
        for key in ("apiGroups", "nonResourceURLs", "resources", "verbs"):
            given = read(rule, key)
            text = message(f"rules[{place}].{key}", given, "* also grants what does not exist yet", "name each one")
            yield from demand(given, lambda value: not any(map(_has_wildcard, each(value))), text)
    for place, selector in enumerate(each(read(role.properties, "aggregationRule", "clusterRoleSelectors"))):
        field = f"aggregationRule.clusterRoleSelectors[{place}]"
        text = message(field, selector, "takes the rights of every role", "select the roles by a label")
        yield from demand(selector, _names_a_label, text)


def _names_a_label(selector: Value) -> bool:
    """Whether a selector asks for a label that roles must have: one that asks for its absence matches all others."""
    operators = [read(one, "operator") for one in each(read(selector, "matchExpressions"))]
    return bool(entries(read(selector, "matchLabels"))) or any(one in ("In", "Exists") for one in operators)


def _has_wildcard(value: Value) -> bool:
    """Whether a name stands for all: `*`, `*/scale`, `pods/*`, or all addresses, but not those below a path."""
    return isinstance(value, str) and (value in ("*", "/*") or ("*" in value.split("/") and not value.startswith("/")))


def _escalations(role: Resource, _: RuleConfig) -> Iterator[Finding]:
    if role.kind not in {"ClusterRole", "Role"}:
        return
    for place, rule in enumerate(each(read(role.properties, "rules"))):
        verbs, resources = read(rule, "verbs"), read(rule, "resources")
        text = message(
            f"rules[{place}].verbs", verbs, "grants the rights of others", "omit bind, escalate, impersonate"
        )
        yield from demand(verbs, lambda value: not _BECOMING_ANOTHER & {*map(label, each(value))}, text)
        for resource, leading in _BEYOND_ITSELF.items():
            if isinstance(verbs, Unknown) or (leading and not {*leading, "*"} & {*map(label, each(verbs))}):
                continue
            text = message(f"rules[{place}].resources", resource, "grants the rights of others", "omit it")
            yield from demand(resources, lambda value, one=resource: one not in each(value), text)


def _bindings(binding: Resource, _: RuleConfig) -> Iterator[Finding]:
    if binding.kind not in {"ClusterRoleBinding", "RoleBinding"}:
        return
    role = read(binding.properties, "roleRef", "name")
    everywhere = binding.kind == "ClusterRoleBinding"
    forbidden = _ADMINISTRATORS | _ALL_OF_THE_CLUSTER if everywhere else _ADMINISTRATORS
    text = message("roleRef.name", role, "nothing needs all rights", "bind a role that names what is needed")
    yield from demand(role, lambda value: value not in forbidden and not label(value).startswith(_CONTROLLERS), text)
    for subject in each(read(binding.properties, "subjects")):
        name = read(subject, "name")
        text = message("subjects", name, "is everybody who reaches the API server", "name the accounts")
        yield from demand(name, lambda value: value not in _EVERYBODY | _ADMINISTRATORS, text)


def _ram(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    if resource.type == _RAM_POLICY:
        document = read(resource.properties, "policyDocument")
        given = document if document is not None else read(resource.properties, "document")
        yield from _statements(given)
        for one in each(read(resource.properties, "statements")):  # what the provider makes the document of
            named = {"effect": read(one, "effect"), "action": read(one, "actions"), "resource": read(one, "resources")}
            yield from _statements({"statement": [named]})
    elif resource.type in _RAM_ATTACHMENTS:
        name = read(resource.properties, "policyName")
        text = message("policyName", name, "nothing needs all rights", "attach a policy that names what is needed")
        yield from demand(name, lambda value: not _FULL_ACCESS.fullmatch(label(value, "")), text)


def _statements(document: Value) -> Iterator[Finding]:
    for statement in statements(document):
        if isinstance(statement, Unknown):
            yield statement
            continue
        for key in ("NotAction", "NotResource"):
            patterns = read(statement, key.lower())
            text = message(key, patterns, "grants all else, also what does not exist yet", "name what is granted")
            yield from demand(patterns, lambda value: value is None, text)
        actions = [action for action in listed(read(statement, "action")) if isinstance(action, str)]
        everything = any(_is_every_resource(each) for each in listed(read(statement, "resource")))
        for action in actions:
            if _is_every_action(action) or (everything and _is_every_action_of_services(action)):
                yield message(
                    "Action", action, "must not grant everything on every resource", "name actions or resources"
                )


def statements(document: Value) -> Iterator[Value]:
    """Yield the statements of a policy that allow something, with keys in lower case; an unknown policy is one."""
    if isinstance(document, Unknown):
        yield document
        return
    for statement in map(_lower, listed(read(_lower(_decoded(document)), "statement"))):
        if isinstance(statement, Unknown) or label(read(statement, "effect"), "").lower() == "allow":
            yield statement


def _lower(value: Value) -> Value:
    """Return an object with its keys in lower case: whatever the account makes of another spelling, it is one."""
    return {key.lower(): item for key, item in value.items()} if isinstance(value, dict) else value


def _is_every_action(pattern: str) -> bool:
    """Whether a pattern is that of all actions of all services: nothing but wildcards."""
    return "*" in pattern and not pattern.strip("*?:")


def _is_every_action_of_services(pattern: str) -> bool:
    """Whether a pattern matches every action of some service: `ecs:*`, and `e*`, whose star is a colon, too."""
    service, colon, action = pattern.partition(":")
    return _is_every_action(action) if colon else service.endswith("*")


def _is_every_resource(pattern: Value) -> bool:
    """Whether a pattern is that of all resources of a service: its last part is nothing but wildcards."""
    return isinstance(pattern, str) and not pattern.rpartition(":")[2].strip("*?/")


def _decoded(document: Value) -> Value:
    if not isinstance(document, str):
        return document
    try:
        return plain(json.loads(document))
    except ValueError:  # the provider says so itself
        return None


def listed(value: Value) -> list[Value]:
    """Return the values of a policy's field, which may be one value or a list."""
    return each(value) if isinstance(value, list | Unknown) else [] if value is None else [value]


RULES = (
    Rule(
        name="no-wildcard-rbac",
        demand="RBAC roles name their API groups, resources and verbs.",
        severity="high",
        config=RuleConfig,
        check=_wildcards,
    ),
    Rule(
        name="no-rights-of-others",
        demand="RBAC roles do not lead to the rights of others: impersonation, escalation, tokens, nodes.",
        severity="critical",
        config=RuleConfig,
        check=_escalations,
    ),
    Rule(
        name="no-cluster-admins",
        demand="Nothing is bound to the rights of an administrator, and no role to everybody.",
        severity="critical",
        config=RuleConfig,
        check=_bindings,
    ),
    Rule(
        name="no-wildcard-ram",
        demand="RAM policies do not grant everything on every resource.",
        severity="critical",
        config=RuleConfig,
        check=_ram,
    ),
)
