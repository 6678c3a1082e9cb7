"""Every metric that a panel or a rule names is emitted by something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from infra.gateway.proxy_metrics import PROXY_METRICS
from infra.gpu.dcgm_exporter import COUNTERS
from infra.monitoring.dashboards.queries import queries
from infra.monitoring.kept_metrics import KEPT_METRICS
from infra.monitoring.rules import rule_manifests
from infra.settings.alert_thresholds import AlertThresholds
from tests.tables import each_row
from tests.unit.infra.monitoring.rules.queries import counters_of, gauges_of, metrics_of
from trainer.serve.metrics import ServerMetrics, VersionMetrics
from trainer.serve.shadow_metrics import ShadowMetrics
from trainer.training.metrics import TrainingMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

PROMETHEUS_ITSELF_MAKES = {"up", "ALERTS"}
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}


COUNTERS_WITHOUT_TOTAL = {
    # Volcano 1.14, pkg/scheduler/metrics/metrics.go and pkg/controllers/job/state/metrics.go; its other `…_count` and
    # `pod_preemption_victims` are gauges
    *("volcano_total_preemption_attempts", "volcano_job_completed_phase_count", "volcano_job_failed_phase_count"),
    "node_vmstat_oom_kill",  # without a type in node_exporter; the kernel counts it from its start
    *(PROXY_METRICS.keys() - {"envoy_server_live"}),  # "Statistics" of Envoy, see infra/gateway/proxy_metrics.py
}
"""Of exporters. All others keep to Prometheus's names, by which counters end with _total, and nothing else does:
docs/metrics of kube-state-metrics 2, the collectors of node_exporter, "Kubernetes Metrics Reference"."""


def _rules() -> Iterator[tuple[str, str]]:
    """Yield name and expression of every rule."""
    for manifest in rule_manifests(AlertThresholds(), namespace="monitoring", labels={}).values():
        for group in manifest["spec"]["groups"]:
            for rule in group["rules"]:
                yield rule.get("record") or rule["alert"], rule["expr"]


def _recorded() -> set[str]:
    return {name for name, _ in _rules() if ":" in name}


def _of_a_trainer() -> dict[str, str]:
    return {
        family.name + suffix: family.type
        for family in TrainingMetrics(run="run", rank=0).registry.collect()
        for suffix in SUFFIXES.get(family.type, ("",))
    }


def _of_a_server() -> dict[str, str]:
    metrics = ServerMetrics("digits")
    metrics.add_version(VersionMetrics(model="digits", version=1))
    metrics.shadow_lines = ShadowMetrics().lines
    families = re.findall(r"^# TYPE (\w+) (\w+)$", metrics.render().decode(), flags=re.MULTILINE)
    # Triton's counters end without _total, and so do ours for the same services.
    suffixes = {"histogram": SUFFIXES["histogram"]}
    return {name + suffix: kind for name, kind in families for suffix in suffixes.get(kind, ("",))}


def _of_exporters() -> dict[str, str]:
    """Return the types of what is kept of other programs' metrics."""
    ends = {suffix: kind for kind, suffixes in SUFFIXES.items() for suffix in suffixes if suffix != "_count"}
    by_name = {
        name: next((kind for suffix, kind in ends.items() if name.endswith(suffix)), "gauge")
        for names in KEPT_METRICS.values()
        for name in names
    }
    return by_name | dict.fromkeys(COUNTERS_WITHOUT_TOTAL, "counter")


KINDS = {
    **dict.fromkeys(_recorded(), "gauge"),
    **_of_exporters(),
    **_of_a_trainer(),
    **_of_a_server(),
    **{name: kind for name, kind, _ in COUNTERS},
}
"""Types of Prometheus, by the names of all metrics."""
COUNTING = {"counter", "histogram", "summary"}
EXISTING = set(KINDS) | PROMETHEUS_ITSELF_MAKES
USES = [
    *((f"{query.dashboard}: {query.panel}", query.expr) for query in queries()),
    *((f"rule {name}", expr) for name, expr in _rules()),
]


@each_row(("where", "expr"), [pytest.param(*use, id=use[0]) for use in USES])
def test_every_metric_exists(where, expr):
    assert metrics_of(expr) <= EXISTING, f"{where} names what nobody emits"


@each_row(("where", "expr"), [pytest.param(*use, id=use[0]) for use in USES])
def test_no_gauge_is_read_as_a_counter(where, expr):
    """Functions for counters take each fall of the value for a restart, so of a gauge they show far too much."""
    assert {name for name in counters_of(expr) if KINDS.get(name) == "gauge"} == set(), where


@each_row(
    ("name", "kind"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", "gauge"),
        ("kube_pod_status_phase", "gauge"),
        ("volcano_queue_pod_group_pending_count", "gauge"),
        ("kube_pod_container_status_restarts_total", "counter"),
        ("volcano_job_failed_phase_count", "counter"),
        ("volcano_e2e_scheduling_latency_milliseconds_bucket", "histogram"),
    ],
)
def test_what_is_read_as_the_other_kind_is_found(name, kind):
    assert KINDS[name] == kind
    query = f"sum(rate({name}[5m]) > max_over_time(DCGM_FI_DEV_FB_USED[1h]))"
    assert counters_of(query) == {name}


@each_row(("where", "expr"), [pytest.param(*use, id=use[0]) for use in USES])
def test_no_counter_is_read_as_a_gauge(where, expr):
    assert {name for name in gauges_of(expr) if KINDS.get(name) in COUNTING} == set(), where


def test_a_counter_that_is_read_as_a_gauge_is_found():
    assert gauges_of("avg(avg_over_time(DCGM_FI_DEV_GPU_UTIL[5m])) + rate(up[1m])") == {"DCGM_FI_DEV_GPU_UTIL"}


def test_a_metric_that_nobody_emits_is_found():
    assert not metrics_of("increase(DCGM_FI_DEV_FB_TOTAL[5m])") <= EXISTING


def test_the_programs_metrics_are_seen():
    assert {"athanor_training_loss", "athanor_training_step_seconds_bucket"} <= set(_of_a_trainer())
    assert {"nv_inference_count", "athanor_request_duration_seconds_bucket"} <= set(_of_a_server())
