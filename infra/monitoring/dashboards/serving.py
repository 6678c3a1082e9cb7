"""The dashboard of a service: availability, latency, model versions and objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards import service_gateway, service_requests, service_shadow, workload
from infra.monitoring.dashboards.board import LOGS, RUNBOOKS, Board, Choice, Section, logs_link
from infra.monitoring.dashboards.panels import Limits, Look, Text, number, over_time
from infra.monitoring.dashboards.promql import PODS_OF_NAMESPACE, WORKLOAD, of_pods
from infra.monitoring.logs import SERVICE_FIELD
from infra.monitoring.rules.serving import percent
from infra.settings.alert_thresholds import FASTEST_BURN

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel
    from infra.settings.alert_thresholds import AlertThresholds, ServingThresholds

UID = "athanor-serving"
_SERVICES = 'namespace_pod:workload:info{kind="service"}'
_BURN = Limits(doubtful=1, bad=FASTEST_BURN)


def board(thresholds: AlertThresholds) -> Board:
    """Return the dashboard."""
    serving = thresholds.serving
    return Board(
        uid=UID,
        title="Serving",
        about="Whether a model's service answers, how fast, with which version, and whether it meets its objectives.",
        choices=(
            Choice(name="namespace", label="Namespace", series=_SERVICES, of="namespace"),
            Choice(
                name="workload",
                label="Service",
                series='namespace_pod:workload:info{kind="service", namespace="$namespace"}',
                of="workload",
            ),
        ),
        entries=(LOGS, RUNBOOKS),
        links=(logs_link("Logs of this service", SERVICE_FIELD, "workload"),),
        sections=(
            _now(serving),
            _promise(serving),
            service_requests.traffic(),
            service_gateway.gateway(),
            service_requests.batches(),
            service_requests.versions(),
            service_shadow.shadow(),
            workload.gpus(),
            workload.pods(),
        ),
    )


def _now(thresholds: ServingThresholds) -> Section:
    budget, slow = 1 - thresholds.availability_objective, thresholds.latency_seconds
    return Section(
        title="Now",
        panels=(
            _requests_per_second(),
            _errors(budget),
            _slow_requests(slow),
            _pods_ready(),
            _requests_waiting(),
            _error_budget_burn_rate(budget),
        ),
    )


def _requests_per_second() -> Panel:
    return number(
        "Requests per second",
        f"sum(service:requests:rate5m{{{WORKLOAD}}})",
        Text(asks="How many requests does it get?", when_bad="None: check whether clients can reach its Service."),
        Look(unit=units.RequestsPerSecond),
    )


def _errors(budget: float) -> Panel:
    return number(
        "Errors",
        f"max(service:errors:ratio_rate5m{{{WORKLOAD}}})",
        Text(
            asks="What share of requests fails because of the service?",
            when_bad="See the failures by reason below: the model raised an exception, its queue was full, or pods "
            "were removed.",
        ),
        Look(unit=units.PercentUnit, decimals=2, limits=Limits(doubtful=budget, bad=budget * FASTEST_BURN)),
    )


def _slow_requests(slow: float) -> Panel:
    return number(
        "99th percentile",
        f"max(service:latency_seconds:p99{{{WORKLOAD}}})",
        Text(
            asks="How long do slow requests take?",
            when_bad="Compare the time in the queue and in the model below: use more replicas, or a faster model.",
        ),
        Look(unit=units.Seconds, limits=Limits(doubtful=slow / 2, bad=slow)),
    )


def _pods_ready() -> Panel:
    return number(
        "Pods ready",
        "sum("
        + of_pods(f'max by (namespace, pod) (kube_pod_status_ready{{condition="true", {PODS_OF_NAMESPACE}}})')
        + ")",
        Text(
            asks="How many pods are ready?", when_bad="Run make status, then read the logs of a pod that is not ready."
        ),
        Look(unit=units.NoUnit, decimals=0),
    )


def _requests_waiting() -> Panel:
    return number(
        "Requests waiting",
        f"sum(nv_inference_pending_request_count{{{WORKLOAD}}})",
        Text(
            asks="How many requests are waiting for the model?",
            when_bad="Growing: it gets more requests than it can handle; add replicas before requests are rejected.",
        ),
    )


def _error_budget_burn_rate(budget: float) -> Panel:
    return number(
        "Error budget burn rate",
        f"max(service:errors:ratio_rate1h{{{WORKLOAD}}}) / {budget:.6g}",
        Text(
            asks="How many times faster than sustainable was the error budget used over the last hour?",
            when_bad="Above 1 the budget does not last for 30 days; see the runbook ServiceErrorsBurnFast.",
        ),
        Look(limits=_BURN, decimals=1),
    )


def _promise(thresholds: ServingThresholds) -> Section:
    budget, slow = 1 - thresholds.availability_objective, 1 - thresholds.latency_objective
    windows = ("5m", "30m", "1h", "6h")
    return Section(
        title="Service level objectives",
        panels=(
            _burn_rate_errors(budget, windows, thresholds),
            _burn_rate_slow_responses(slow, windows, thresholds),
            _latency(thresholds),
        ),
    )


def _burn_rate_errors(budget: float, windows: tuple[str, ...], thresholds: ServingThresholds) -> Panel:
    return over_time(
        "Burn rate: errors",
        {
            f"over {window}": f"max(service:errors:ratio_rate{window}{{{WORKLOAD}}}) / {budget:.6g}"
            for window in windows
        },
        Text(
            asks=f"Is the objective of {percent(thresholds.availability_objective)} met? At 1 the budget just lasts.",
            when_bad=f"Above {FASTEST_BURN:g} over both 5m and 1h, an alert pages: roll back first, investigate later.",
        ),
        Look(limits=_BURN),
    )


def _burn_rate_slow_responses(slow: float, windows: tuple[str, ...], thresholds: ServingThresholds) -> Panel:
    return over_time(
        "Burn rate: slow responses",
        {f"over {window}": f"max(service:slow:ratio_rate{window}{{{WORKLOAD}}}) / {slow:.6g}" for window in windows},
        Text(
            asks=f"Do {percent(thresholds.latency_objective)} of the responses take at most "
            f"{thresholds.latency_seconds:g} s? At 1 the budget just lasts.",
            when_bad="Proceed as for errors; then compare the time in the queue with that in the model below.",
        ),
        Look(limits=_BURN),
    )


def _latency(thresholds: ServingThresholds) -> Panel:
    return over_time(
        "Latency",
        {
            "median": f"max(service:latency_seconds:p50{{{WORKLOAD}}})",
            "99th percentile": f"max(service:latency_seconds:p99{{{WORKLOAD}}})",
        },
        Text(
            asks="How long do responses take, from the first byte of the request to the response?",
            when_bad="Both rise: the load or the model. Only the 99th percentile: pauses, new pods, large requests.",
        ),
        Look(
            unit=units.Seconds,
            limits=Limits(doubtful=thresholds.latency_seconds / 2, bad=thresholds.latency_seconds),
        ),
    )
