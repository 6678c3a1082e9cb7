"""PriorityClasses of many stacks live side by side in one cluster, and change nothing for pods that name none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.priorities import priority_class_manifest, priority_class_name
from infra.settings.scheduling import PriorityClassSettings, SchedulingSettings

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)


@given(LABELS, LABELS, LABELS, LABELS)
def test_no_two_stacks_make_the_same_name(namespace, name, other_namespace, other_name):
    if (namespace, name) == (other_namespace, other_name) or "system-" in {namespace[:7], other_namespace[:7]}:
        return
    full = priority_class_name(namespace, name)
    assert full != priority_class_name(other_namespace, other_name)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", full)


def test_names_that_kubernetes_keeps_are_refused():
    with pytest.raises(RefusalError, match=r"athanor:namespace = 'system-a': .*Fix: choose a namespace without"):
        priority_class_name("system-a", "high")


def test_a_class_says_what_its_settings_say():
    settings = PriorityClassSettings(name="high", value=1000, description="Urgent.", preempts=False)
    assert priority_class_manifest("team", settings) == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "team.high"},
        "value": 1000,
        "description": "Urgent.",
        "globalDefault": False,
        "preemptionPolicy": "Never",
    }
    assert priority_class_manifest("t", PriorityClassSettings(name="a", value=1))["preemptionPolicy"] == (
        "PreemptLowerPriority"
    )


def test_the_default_classes_lie_around_jobs_without_one():
    values = {settings.name: settings.value for settings in SchedulingSettings().priority_classes}
    assert values["low"] < 0 == values["normal"] < values["high"]


def test_an_autoscaler_adds_nodes_for_every_class():
    """Pods below -10 are expendable to it (cluster-autoscaler, expendable-pods-priority-cutoff)."""
    with pytest.raises(ValueError, match="greater than or equal to -10"):
        PriorityClassSettings(name="idle", value=-11)


def test_jobs_come_after_the_classes_and_teams_get_their_names(local_stack):
    job = local_stack.one("digits-training", "Job")
    classes = local_stack.of_kind("PriorityClass")
    assert {each.inputs["metadata"]["name"] for each in classes} == {"athanor.low", "athanor.normal", "athanor.high"}
    assert all(each.urn in local_stack.ancestors(job) for each in classes)
    assert '"priority_classes": ["athanor.low", "athanor.normal", "athanor.high"]' in local_stack.exports["offers"]


def test_a_changed_value_makes_a_new_class_in_the_place_of_the_old(local_stack):
    """Kubernetes refuses to change it, and two of one name cannot be there at once."""
    for priority_class in local_stack.of_kind("PriorityClass"):
        assert priority_class.delete_before_replace
        assert priority_class.ignore_changes == ("globalDefault",)
