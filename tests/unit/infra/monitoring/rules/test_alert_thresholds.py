"""Every limit has an effect, and senseless ones are refused."""

import re

import pytest

from infra.monitoring.rules import rule_manifests
from infra.settings.alert_thresholds import REQUEST_SECONDS_BUCKETS, AlertThresholds
from infra.settings.parse import SettingsError, parse_settings
from infra.settings.tree import every_field, is_row
from tests.tables import each_row
from trainer.serve.metrics import REQUEST_SECONDS_BUCKETS as BUCKETS_OF_THE_SERVER

DEFAULTS = AlertThresholds()
KEYS = [key for key, field, _ in every_field(AlertThresholds) if is_row(field)]
OTHER = {
    "gpu.idle_busy_ratio": 0.1,
    "training.straggler_factor": 2.0,
    "queues.quota_used_ratio": 0.5,
    "storage.nearly_full_ratio": 0.5,
    "storage.full_ratio": 0.99,
    "serving.availability_objective": 0.99,
    "serving.latency_objective": 0.95,
    "serving.latency_seconds": 1.0,
    "serving.canceled_ratio": 0.5,
    "serving.gateway_error_ratio": 0.5,
}
"""Another value of each limit that is not a whole number."""


def rules(thresholds):
    return rule_manifests(thresholds, namespace="monitoring", labels={})


def with_value(key, value):
    area, name = key.split(".")
    return AlertThresholds.model_validate({area: {name: value}})


@each_row("key", KEYS)
def test_every_limit_changes_a_rule(key):
    area, name = key.split(".")
    other = OTHER.get(key) or getattr(getattr(DEFAULTS, area), name) + 1
    assert rules(with_value(key, other)) != rules(DEFAULTS)


@each_row(
    ("key", "value", "words"),
    [
        ("gpu.temperature_celsius", 5, "greater than or equal to 40"),
        ("gpu.idle_busy_ratio", 1, "less than 1"),
        ("gpu.idle_busy_ratio", True, "valid number"),
        ("gpu.idle_for_seconds", 0, "greater than or equal to 1"),
        ("training.straggler_factor", 1, "greater than 1"),
        ("training.stalled_for_seconds", -1, "greater than or equal to 0"),
        ("queues.quota_used_ratio", 1.5, "less than or equal to 1"),
        ("storage.full_ratio", 0.5, "must be above nearly_full_ratio = 0.85"),
        ("serving.availability_objective", 0.9, "must be above 0.9306"),
        ("serving.latency_objective", 0.5, "must be above 0.9306"),
        ("serving.latency_seconds", 0.3, "is not a bucket bound of the server's histogram"),
        ("nodes.no_such_limit", 1, "no such key"),
    ],
)
def test_senseless_limits_are_refused_with_the_fix(key, value, words):
    area, name = key.split(".")
    with pytest.raises(SettingsError) as refused:
        parse_settings({"monitoring": {"thresholds": {area: {name: value}}}})
    said = str(refused.value)
    assert words in said
    assert f"{name} = {value!r}" in said or "no such key" in said
    assert "Fix: " in said


def test_bounds_of_latencies_are_those_that_the_server_counts():
    assert REQUEST_SECONDS_BUCKETS == BUCKETS_OF_THE_SERVER


@each_row("bound", REQUEST_SECONDS_BUCKETS)
def test_every_bound_is_found_however_the_server_writes_it(bound):
    (recording,) = (
        rule
        for rule in rules(with_value("serving.latency_seconds", bound))["rules-serving"]["spec"]["groups"][0]["rules"]
        if rule.get("record") == "service:slow:ratio_rate5m"
    )
    pattern = recording["expr"].split('le=~"')[1].split('"')[0].replace(r"\\", "\\")
    assert [each for each in REQUEST_SECONDS_BUCKETS if re.fullmatch(pattern, str(each))] == [bound]
    assert re.fullmatch(pattern, f"{bound:g}")
