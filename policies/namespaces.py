"""Namespaces: closed by default, and with a Pod Security level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.rule import Finding, Rule, RuleConfig, StackFinding, StackRule, demand, message
from policies.values import Unknown, Value, each, entries, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.resources import Resource

_LEVEL = "pod-security.kubernetes.io/enforce"


def _pod_security(namespace: Resource, _: RuleConfig) -> Iterator[Finding]:
    if namespace.kind == "Namespace":
        labels = entries(read(namespace.properties, "metadata", "labels"))
        given = labels.get(_LEVEL, labels.get(""))
        text = message(
            f"label {_LEVEL}",
            given,
            "restricted or baseline is allowed; without the label, pods may do anything",
            "set it to restricted",
        )
        yield from demand(given, lambda value: value in ("restricted", "baseline"), text)


def _default_deny(resources: Sequence[Resource], _: RuleConfig) -> Iterator[StackFinding]:
    closed: set[str] = set()
    undecided: Unknown | None = None
    for policy in resources:
        if policy.kind == "NetworkPolicy":
            answer = _closes(policy)
            if isinstance(answer, Unknown):
                undecided = answer
            elif answer is not None:
                closed.add(answer)
    for namespace in resources:
        if namespace.kind == "Namespace" and namespace.object_name not in closed:
            text = message(
                "NetworkPolicy",
                None,
                f"nothing closes namespace {namespace.object_name}: every pod of the cluster reaches its pods",
                "declare a NetworkPolicy with podSelector: {} and policyTypes: [Ingress]",
            )
            yield namespace, undecided or text


def _closes(policy: Resource) -> str | Unknown | None:
    """Return the namespace whose pods a policy closes to everything that it does not name, if it is such a policy."""
    selector, types = read(policy.properties, "spec", "podSelector"), read(policy.properties, "spec", "policyTypes")
    for value in (selector, types, policy.namespace):
        if isinstance(value, Unknown):
            return value
    for rule in each(read(policy.properties, "spec", "ingress")):
        sources = read(rule, "from")
        for value in (rule, sources):
            if isinstance(value, Unknown):
                return value
        # A rule without sources admits everybody, and so does one of all pods in all namespaces.
        if not sources or any(_is_everybody(peer) for peer in each(sources)):
            return None
    # Ingress is Kubernetes' own default of policyTypes.
    applies = types is None or "Ingress" in each(types)
    # Of a selector, matchLabels and matchExpressions that are empty select all pods, too.
    selects_all = not any(entries(selector).values())
    return str(policy.namespace) if selects_all and applies else None


def _is_everybody(peer: Value) -> bool:
    if not isinstance(peer, dict):
        return False
    cidr = read(peer, "ipBlock", "cidr")
    if cidr in ("0.0.0.0/0", "::/0"):
        return True
    namespaces = peer.get("namespaceSelector")
    pods = entries(peer.get("podSelector"))
    return isinstance(namespaces, dict) and not any(namespaces.values()) and not any(pods.values())


RULES = (
    Rule(
        name="namespace-pod-security",
        demand="Namespaces enforce the Pod Security level restricted or baseline.",
        severity="high",
        config=RuleConfig,
        check=_pod_security,
    ),
)
STACK_RULES = (
    StackRule(
        name="namespace-network-policy",
        demand="Every namespace of the stack has a NetworkPolicy that closes it by default.",
        severity="high",
        config=RuleConfig,
        check=_default_deny,
    ),
)
