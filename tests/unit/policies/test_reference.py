"""docs/policies.md has every rule, every exemption and every configuration."""

from __future__ import annotations

import pytest

from policies.catalogue import AREAS, RULES, STACK_RULES
from policies.reference import PAGE, page
from policies.rule import RuleConfig


def test_the_page_is_what_the_code_says():
    """Refresh: `.venv/bin/python -m policies.reference`."""
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text


def test_a_page_without_its_marks_is_refused():
    with pytest.raises(ValueError, match="restore them"):
        page("# Policies\n")


def test_every_configuration_is_described():
    text = PAGE.read_text(encoding="utf-8")
    own = [
        f"| `{rule.name}.{name}` |"
        for rule in (*RULES, *STACK_RULES)
        for name in rule.config.model_fields
        if name not in RuleConfig.model_fields
    ]
    assert own
    assert [row for row in own if row not in text] == []


def test_there_are_at_least_twenty_rules_and_each_is_in_one_area():
    names = [rule.name for rules in AREAS.values() for rule in rules]
    assert len(names) == len(set(names)) >= 20
