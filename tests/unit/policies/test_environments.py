"""Every stack of the repository keeps every rule, and its configuration of the pack is valid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from infra.settings.parse import parse_settings
from policies.catalogue import RULES, STACK_RULES
from policies.exemptions import EXEMPTIONS
from policies.rule import Rule
from policies.values import Unknown
from tests.fixtures.recorded_stack import REPOSITORY
from tests.tables import each_row
from tests.unit.policies.recorded import resources
from tools.stacks.engine import stack_config

if TYPE_CHECKING:
    from policies.resources import Resource
    from policies.rule import StackRule

ENVIRONMENTS = REPOSITORY / "policies" / "environments"
STACKS = ("local", "dev", "staging", "prod")
LEVELS = {"advisory", "mandatory", "disabled"}
ALL_RULES = {rule.name: rule for rule in (*RULES, *STACK_RULES)}


def configuration(stack: str) -> dict[str, Any]:
    return json.loads((ENVIRONMENTS / f"{stack}.json").read_text(encoding="utf-8"))


def options(stack: str) -> dict[str, dict[str, Any]]:
    """Configuration of each rule that is not disabled there."""
    given = configuration(stack)
    return {
        name: {} if isinstance(given.get(name), str) else given.get(name, {})
        for name in ALL_RULES
        if given.get(name) != "disabled"
    }


def test_there_is_a_configuration_for_each_stack():
    stacks = {file.name.split(".")[1] for file in REPOSITORY.glob("Pulumi.*.yaml")}
    assert {file.stem for file in ENVIRONMENTS.iterdir()} == stacks == set(STACKS)


@each_row("stack", STACKS)
def test_configurations_name_rules_and_what_these_know(stack):
    given = configuration(stack)
    assert given.keys() <= {"all", *ALL_RULES}
    for name, value in given.items():
        if isinstance(value, str):
            assert value in LEVELS
        else:
            ALL_RULES[name].parse({key: each for key, each in value.items() if key != "enforcementLevel"})


def test_development_is_advised_and_production_is_refused():
    assert {stack: configuration(stack)["all"] for stack in STACKS} == {
        "local": "advisory", "dev": "advisory", "staging": "mandatory", "prod": "mandatory",
    }  # fmt: skip
    assert "disabled" not in configuration("prod").values()


@each_row("stack", STACKS)
def test_a_stack_keeps_every_rule(stack, record_stack):
    declared = resources(record_stack(stack_config(stack), preview=True, stack=stack))
    configured = options(stack)
    broken = [
        f"{rule.name}: {resource.identity}: {finding}"
        for rule in RULES
        if rule.name in configured
        for resource in declared
        for finding in rule.findings(resource, rule.parse(configured[rule.name]))
    ]
    broken += [
        f"{rule.name}: {resource}: {finding}"
        for rule in STACK_RULES
        if rule.name in configured
        for resource, finding in rule.findings(declared, rule.parse(configured[rule.name]))
    ]
    assert broken == []


def test_every_exemption_is_needed(record_stack):
    """By all DaemonSets of prod, and by NVIDIA's device plugin with MPS."""
    gpu = {"device_plugin": True, "device_list": "volume-mounts", "sharing": {"mode": "mps", "replicas": 2}}
    recordings = record_stack({"gpu": gpu}), record_stack(stack_config("prod"), preview=True, stack="prod")
    needless = []
    for name, objects in EXEMPTIONS.items():
        broken = {each for recording in recordings for each in _breaking(ALL_RULES[name], resources(recording))}
        needless += [f"{name}: {each}" for each in objects if each not in broken]
    assert needless == []


def _breaking(rule: Rule[Any] | StackRule[Any], declared: list[Resource]) -> set[str]:
    """Return what breaks a rule if nothing is exempt."""
    config = rule.parse({})
    if isinstance(rule, Rule):
        return {each.identity for each in declared if any(rule.check(each, config))}
    return {each.identity for each, _ in rule.check(declared, config) if each}


@each_row("stack", ["dev", "staging", "prod"])
def test_the_allowed_registry_is_that_of_the_stack(stack):
    registry = parse_settings(stack_config(stack)).images.registry
    assert configuration(stack)["images-from-registry"]["registries"] == [registry]


def test_what_is_not_known_yet_in_our_own_stacks_decides_nothing(record_stack):
    """Else every preview would carry notes that nobody reads."""
    declared = resources(record_stack(stack_config("prod"), preview=True, stack="prod"))
    undecided = [
        (rule.name, resource.identity)
        for rule in RULES
        for resource in declared
        for finding in rule.findings(resource, rule.parse({}))
        if isinstance(finding, Unknown)
    ]
    assert undecided == []
