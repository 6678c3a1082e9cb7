"""Rules about namespaces: closed by default, and with a Pod Security level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.exposure import include_internet
from policies.rule import Finding, Rule, RuleConfig, StackFinding, StackRule, demand, message
from policies.values import Unknown, Value, each, entries, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.resources import Resource

_NAME_LABEL = "kubernetes.io/metadata.name"
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
    closed, opened = set[str](), set[str]()
    undecided: Unknown | None = None
    for policy in resources:
        if policy.kind == "NetworkPolicy":
            answer = _closes(policy)
            if isinstance(answer, Unknown):
                undecided = answer
            elif answer is not None:
                (closed if answer else opened).add(str(policy.namespace))
    for namespace in resources:
        if namespace.kind == "Namespace" and namespace.object_name not in closed - opened:
            text = message(
                "NetworkPolicy",
                None,
                f"nothing closes namespace {namespace.object_name}: every pod of the cluster reaches its pods",
                "declare a NetworkPolicy with podSelector: {} and policyTypes: [Ingress]",
            )
            yield namespace, undecided or text


def _closes(policy: Resource) -> bool | Unknown | None:
    """Return whether a policy closes all pods of its namespace or opens all of them to everybody; None if neither."""
    selector, types = read(policy.properties, "spec", "podSelector"), read(policy.properties, "spec", "policyTypes")
    for value in (selector, types, policy.namespace):
        if isinstance(value, Unknown):
            return value
    # Ingress is Kubernetes' own default of policyTypes.
    applies = types is None or "Ingress" in each(types)
    # Of a selector, matchLabels and matchExpressions that are empty select all pods, too.
    if any(entries(selector).values()) or not applies:
        return None
    ranges: list[Value] = []
    for rule in each(read(policy.properties, "spec", "ingress")):
        sources = read(rule, "from")
        for value in (rule, sources):
            if isinstance(value, Unknown):
                return value
        # A rule without sources admits everybody, and so does one of all pods in all namespaces.
        if not sources or any(_is_everybody(peer) for peer in each(sources)):
            return False
        ranges += [read(peer, "ipBlock", "cidr") for peer in each(sources)]
    return not include_internet(ranges)


def _is_everybody(peer: Value) -> bool:
    """Whether a source of a rule is all pods of the cluster, or all but some that it names."""
    if not isinstance(peer, dict) or peer.get("ipBlock") is not None:
        return False
    pods, namespaces = peer.get("podSelector"), peer.get("namespaceSelector")
    is_own_namespace = "namespaceSelector" not in peer and pods is not None
    return not is_own_namespace and _selects_all(namespaces) and _selects_all(pods)


def _selects_all(selector: Value) -> bool:
    """Whether a selector demands nothing of what it selects but to lack a label, or to have that of every namespace."""
    demands = [
        demand_of
        for demand_of in each(read(selector, "matchExpressions"))
        if read(demand_of, "operator") not in ("DoesNotExist", "NotIn")
        and (read(demand_of, "operator"), read(demand_of, "key")) != ("Exists", _NAME_LABEL)
    ]
    return not isinstance(selector, Unknown) and not demands and not read(selector, "matchLabels")


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
