"""Rights, in the cluster and in the account."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from policies.rule import Finding, Rule, RuleConfig, demand, message
from policies.values import Unknown, Value, each, plain, read

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
_EVERY_ACTION, _EVERY_ACTION_OF_A_SERVICE = re.compile(r"\*+(?::\*+)?"), re.compile(r"[^:]+:\*+")
_ACCOUNT_ADMINISTRATOR = "AdministratorAccess"


def _wildcards(role: Resource, _: RuleConfig) -> Iterator[Finding]:
    if role.kind not in {"ClusterRole", "Role"}:
        return
    for place, rule in enumerate(each(read(role.properties, "rules"))):
        for key in ("apiGroups", "resources", "verbs"):
            given = read(rule, key)
            text = message(f"rules[{place}].{key}", given, "* also grants what does not exist yet", "name each one")
            yield from demand(given, lambda value: "*" not in each(value), text)


def _bindings(binding: Resource, _: RuleConfig) -> Iterator[Finding]:
    if binding.kind not in {"ClusterRoleBinding", "RoleBinding"}:
        return
    role = read(binding.properties, "roleRef", "name")
    text = message("roleRef.name", role, "nothing needs all rights", "bind a role that names what is needed")
    yield from demand(role, lambda value: value not in _ADMINISTRATORS, text)
    for subject in each(read(binding.properties, "subjects")):
        name = read(subject, "name")
        text = message("subjects", name, "is everybody who reaches the API server", "name the accounts")
        yield from demand(name, lambda value: value not in _EVERYBODY | _ADMINISTRATORS, text)


def _ram(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    if resource.type == _RAM_POLICY:
        document = read(resource.properties, "policyDocument")
        given = document if document is not None else read(resource.properties, "document")
        yield from _statements(given)
    elif resource.type in _RAM_ATTACHMENTS:
        name = read(resource.properties, "policyName")
        text = message("policyName", name, "nothing needs all rights", "attach a policy that names what is needed")
        yield from demand(name, lambda value: value != _ACCOUNT_ADMINISTRATOR, text)


def _statements(document: Value) -> Iterator[Finding]:
    if isinstance(document, Unknown):
        yield document
        return
    for statement in _listed(read(_decoded(document), "Statement")):
        if read(statement, "Effect") != "Allow":
            continue
        for key in ("NotAction", "NotResource"):
            given = read(statement, key)
            text = message(key, given, "grants all else, also what does not exist yet", "name what is granted")
            yield from demand(given, lambda value: value is None, text)
        actions = [action for action in _listed(read(statement, "Action")) if isinstance(action, str)]
        everything = any(_is_every_resource(each) for each in _listed(read(statement, "Resource")))
        for action in actions:
            if _EVERY_ACTION.fullmatch(action) or (everything and _EVERY_ACTION_OF_A_SERVICE.fullmatch(action)):
                yield message(
                    "Action", action, "must not grant everything on every resource", "name actions or resources"
                )


def _is_every_resource(pattern: Value) -> bool:
    """Whether a pattern is that of all resources of a service: its last part is nothing but wildcards."""
    return isinstance(pattern, str) and not pattern.rpartition(":")[2].strip("*/")


def _decoded(document: Value) -> Value:
    if not isinstance(document, str):
        return document
    try:
        return plain(json.loads(document))
    except ValueError:  # the provider says so itself
        return None


def _listed(value: Value) -> list[Value]:
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
        name="no-cluster-admins",
        demand="Nothing is bound to cluster-admin, and no role to everybody.",
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
