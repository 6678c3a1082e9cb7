"""Every rule on what keeps it, what breaks it, and what is not known before the update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from policies.catalogue import RULES, STACK_RULES
from policies.exemptions import EXEMPTIONS
from policies.rule import Rule
from policies.values import Unknown, read
from tests.tables import each_row
from tests.unit.policies import cloud_cases, cluster_cases, pod_cases
from tests.unit.policies.case import deployment, manifest

if TYPE_CHECKING:
    from policies.rule import Finding
    from tests.unit.policies.case import Case

CASES: dict[str, Case] = {**cloud_cases.CASES, **cluster_cases.CASES, **pod_cases.CASES}
BY_NAME = {rule.name: rule for rule in (*RULES, *STACK_RULES)}


def findings(name: str, stack: Any, config: dict[str, Any]) -> list[Finding]:
    rule = BY_NAME[name]
    resources = stack if isinstance(stack, list) else [stack]
    if isinstance(rule, Rule):
        return [finding for each in resources for finding in rule.findings(each, rule.parse(config))]
    return [finding for _, finding in rule.findings(resources, rule.parse(config))]


def _each(attribute: str) -> list[Any]:
    listed = []
    for name, case in CASES.items():
        stacks = getattr(case, attribute)
        for place, stack in enumerate(stacks):
            chosen = (stack, stacks[stack]) if isinstance(stacks, dict) else (stack,)
            listed.append(pytest.param(name, *chosen, id=f"{name}-{place}"))
    return listed


def test_every_rule_has_cases_that_keep_it_and_that_break_it():
    assert len(BY_NAME) == len(RULES) + len(STACK_RULES)
    assert CASES.keys() == BY_NAME.keys()
    assert all(case.keeps and case.breaks for case in CASES.values())


@each_row(("name", "stack"), _each("keeps"))
def test_what_keeps_a_rule_passes(name, stack):
    assert findings(name, stack, CASES[name].config) == []


@each_row(("name", "expected", "stack"), _each("breaks"))
def test_what_breaks_a_rule_is_reported_with_a_fix(name, expected, stack):
    messages = [finding for finding in findings(name, stack, CASES[name].config) if isinstance(finding, str)]
    assert any(expected in message for message in messages), messages
    assert all(". Fix: " in message for message in messages)


@each_row(("name", "stack"), _each("undecided"))
def test_what_is_unknown_neither_passes_nor_fails(name, stack):
    undecided = findings(name, stack, CASES[name].config)
    assert undecided
    assert all(isinstance(each, Unknown) for each in undecided), undecided


@each_row("name", BY_NAME)
def test_a_wholly_unknown_pod_crashes_no_rule(name):
    """As does an object of which nothing is known but its type."""
    for resource in (manifest("apps/v1", "DaemonSet", spec=Unknown()), manifest("v1", "Pod", metadata=Unknown())):
        findings(name, resource, CASES[name].config)


@each_row("name", ["no-secrets-in-config-maps", "no-secrets-in-environment", "no-secrets-in-arguments"])
def test_no_message_quotes_a_secret(name):
    for stack in CASES[name].breaks.values():
        messages = " ".join(map(str, findings(name, stack, {})))
        assert "secret'" not in messages
        assert pod_cases.ACCESS_KEY not in messages
        assert pod_cases.PEM not in messages


def test_a_password_of_nodes_is_not_quoted():
    assert "secret" not in str(findings("no-node-passwords", cloud_cases.pool(password="secret"), {}))


@each_row(
    "sources",
    [
        [{}],
        [{"ipBlock": {"cidr": "10.0.0.0/0"}}],
        [{"ipBlock": {"cidr": "0.0.0.0/1"}}, {"ipBlock": {"cidr": "128.0.0.0/1"}}],
        [{"ipBlock": {"cidr": "0:0::/0", "except": ["fd00::/8"]}}],
        [{"namespaceSelector": None}],
        [{"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}}],
        [{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}}],
    ],
)
def test_a_policy_that_admits_everybody_closes_nothing_even_next_to_one_that_does(sources):
    opened = cluster_cases.closing(ingress=[{"from": sources}])
    for policies in ([opened], [cluster_cases.closing(), opened]):
        assert findings("namespace-network-policy", [cluster_cases.namespace(), *policies], {})


def test_an_exempt_object_is_left_alone_and_no_other():
    exempt = {"exempt": [{"object": "Deployment team/thing", "reason": "reads the node's own logs"}]}
    on_host = deployment(hostNetwork=True)
    other = manifest("apps/v1", "DaemonSet", spec=read(on_host.properties, "spec"))

    assert findings("no-host-namespaces", on_host, exempt) == []
    assert findings("no-host-namespaces", other, exempt) != []


def test_an_object_of_a_stack_rule_can_be_exempt():
    exempt = {"exempt": [{"object": "Namespace team", "reason": "closed by the mesh instead"}]}
    assert findings("namespace-network-policy", [cluster_cases.namespace()], exempt) == []


@each_row(
    "config",
    [
        {"exempt": [{"object": "Deployment team/thing"}]},
        {"exempt": [{"object": "Deployment team/thing", "reason": "because"}]},
        {"exempted": []},
    ],
)
def test_an_exemption_needs_a_reason_and_keys_are_checked(config):
    with pytest.raises(ValidationError):
        BY_NAME["no-host-paths"].parse(config)


def test_the_packs_own_exemptions_belong_to_rules():
    assert EXEMPTIONS.keys() <= BY_NAME.keys()
    assert all(len(reason) >= 10 for objects in EXEMPTIONS.values() for reason in objects.values())
