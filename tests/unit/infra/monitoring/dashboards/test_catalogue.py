"""Every metric that a panel or a rule names is emitted by something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from infra.monitoring.dashboards.queries import queries
from infra.monitoring.kept_metrics import KEPT_METRICS
from infra.monitoring.rules import rule_manifests
from infra.settings.alert_thresholds import AlertThresholds
from tests.tables import each_row
from tests.unit.infra.monitoring.rules.queries import metrics_of
from trainer.serve.metrics import ServerMetrics, VersionMetrics
from trainer.serve.shadow_metrics import ShadowMetrics
from trainer.training.metrics import TrainingMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

PROMETHEUS_ITSELF_MAKES = {"up", "ALERTS"}
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}


def _rules() -> Iterator[tuple[str, str]]:
    """Yield name and expression of every rule."""
    for manifest in rule_manifests(AlertThresholds(), namespace="monitoring", labels={}).values():
        for group in manifest["spec"]["groups"]:
            for rule in group["rules"]:
                yield rule.get("record") or rule["alert"], rule["expr"]


def _recorded() -> set[str]:
    return {name for name, _ in _rules() if ":" in name}


def _of_a_trainer() -> set[str]:
    return {
        family.name + suffix
        for family in TrainingMetrics(run="run", rank=0).registry.collect()
        for suffix in SUFFIXES.get(family.type, ("",))
    }


def _of_a_server() -> set[str]:
    metrics = ServerMetrics("digits")
    metrics.add_version(VersionMetrics(model="digits", version=1))
    metrics.shadow_lines = ShadowMetrics().lines
    families = re.findall(r"^# TYPE (\w+) (\w+)$", metrics.render().decode(), flags=re.MULTILINE)
    # Triton's counters end without _total, and so do ours for the same services.
    suffixes = {"histogram": SUFFIXES["histogram"]}
    return {name + suffix for name, kind in families for suffix in suffixes.get(kind, ("",))}


EXISTING = (
    _recorded()
    | {name for names in KEPT_METRICS.values() for name in names}
    | _of_a_trainer()
    | _of_a_server()
    | PROMETHEUS_ITSELF_MAKES
)
USES = [
    *((f"{query.dashboard}: {query.panel}", query.expr) for query in queries()),
    *((f"rule {name}", expr) for name, expr in _rules()),
]


@each_row(("where", "expr"), [pytest.param(*use, id=use[0]) for use in USES])
def test_every_metric_exists(where, expr):
    assert metrics_of(expr) <= EXISTING, f"{where} names what nobody emits"


def test_a_metric_that_nobody_emits_is_found():
    assert not metrics_of("increase(DCGM_FI_DEV_FB_TOTAL[5m])") <= EXISTING


def test_the_programs_metrics_are_seen():
    assert {"athanor_training_loss", "athanor_training_step_seconds_bucket"} <= _of_a_trainer()
    assert {"nv_inference_count", "athanor_request_duration_seconds_bucket"} <= _of_a_server()
