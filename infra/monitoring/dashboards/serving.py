"""One service: does it answer, how fast, with which model, and is the promise to its users kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards import workload
from infra.monitoring.dashboards.board import LOGS, RUNBOOKS, Board, Choice, Section, logs_link
from infra.monitoring.dashboards.panels import Limits, Look, Text, number, over_time, rows
from infra.monitoring.dashboards.promql import PODS_OF_NAMESPACE, WORKLOAD, most, of_pods, rate
from infra.monitoring.logs import SERVICE_FIELD
from infra.settings.alert_thresholds import FASTEST_BURN

if TYPE_CHECKING:
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
        about="Whether a model's service answers, how fast, with which version, and keeps its promise.",
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
            _traffic(),
            _batches(),
            _versions(),
            workload.gpus(),
            workload.pods(),
        ),
    )


def _now(thresholds: ServingThresholds) -> Section:
    budget, slow = 1 - thresholds.availability_objective, thresholds.latency_seconds
    return Section(
        title="Now",
        panels=(
            number(
                "Requests per second",
                f"sum(service:requests:rate5m{{{WORKLOAD}}})",
                Text(asks="How much is asked of it?", when_bad="None: do its users reach it? See its Service."),
                Look(unit=units.RequestsPerSecond),
            ),
            number(
                "Errors",
                f"max(service:errors:ratio_rate5m{{{WORKLOAD}}})",
                Text(
                    asks="Which share of requests fails by the service's fault?",
                    when_bad="By reason below: the model raised, its queue was full, or pods went away.",
                ),
                Look(unit=units.PercentUnit, limits=Limits(doubtful=budget, bad=budget * FASTEST_BURN)),
            ),
            number(
                "99 of 100 are faster",
                f"max(service:latency_seconds:p99{{{WORKLOAD}}})",
                Text(
                    asks="How long do slow requests take?",
                    when_bad="Compare queue and model time below: more replicas, or a faster model.",
                ),
                Look(unit=units.Seconds, limits=Limits(doubtful=slow / 2, bad=slow)),
            ),
            number(
                "Pods ready",
                "sum("
                + of_pods(f'max by (namespace, pod) (kube_pod_status_ready{{condition="true", {PODS_OF_NAMESPACE}}})')
                + ")",
                Text(asks="How many pods answer?", when_bad="make status, then the logs of one that is not ready."),
                Look(unit=units.NoUnit, decimals=0),
            ),
            number(
                "Requests waiting",
                f"sum(nv_inference_pending_request_count{{{WORKLOAD}}})",
                Text(
                    asks="How many requests wait for the model now?",
                    when_bad="Growing: it gets more than it can do; add replicas before requests are refused.",
                ),
            ),
            number(
                "Burn of the error budget",
                f"max(service:errors:ratio_rate1h{{{WORKLOAD}}}) / {budget:.6g}",
                Text(
                    asks="How many times faster than allowed is the error budget used, over the last hour?",
                    when_bad="Above 1 it will not last for the month; the runbook of the burn alert.",
                ),
                Look(limits=_BURN, decimals=1),
            ),
        ),
    )


def _promise(thresholds: ServingThresholds) -> Section:
    budget, slow = 1 - thresholds.availability_objective, 1 - thresholds.latency_objective
    windows = ("5m", "30m", "1h", "6h")
    return Section(
        title="Promise to users",
        panels=(
            over_time(
                "Burn of the budget for errors",
                {
                    f"over {window}": f"max(service:errors:ratio_rate{window}{{{WORKLOAD}}}) / {budget:.6g}"
                    for window in windows
                },
                Text(
                    asks=f"Is the promise of {thresholds.availability_objective:.4%} kept? At 1 the budget just lasts.",
                    when_bad=f"Above {FASTEST_BURN:g} in 5m and 1h somebody is paged: roll back first, ask why after.",
                ),
                Look(limits=_BURN),
            ),
            over_time(
                "Burn of the budget for slow answers",
                {
                    f"over {window}": f"max(service:slow:ratio_rate{window}{{{WORKLOAD}}}) / {slow:.6g}"
                    for window in windows
                },
                Text(
                    asks=f"Are {thresholds.latency_objective:.4%} of the answers there within "
                    f"{thresholds.latency_seconds:g} s? At 1 the budget just lasts.",
                    when_bad="As beside it; then compare the queue with the model's own time below.",
                ),
                Look(limits=_BURN),
            ),
            over_time(
                "Answer time",
                {
                    "half are faster": f"max(service:latency_seconds:p50{{{WORKLOAD}}})",
                    "99 of 100 are faster": f"max(service:latency_seconds:p99{{{WORKLOAD}}})",
                },
                Text(
                    asks="How long do answers take, from a request's first byte to its answer?",
                    when_bad="Both rise: load or model. The second alone: pauses, cold pods, large requests.",
                ),
                Look(
                    unit=units.Seconds,
                    limits=Limits(doubtful=thresholds.latency_seconds / 2, bad=thresholds.latency_seconds),
                ),
            ),
        ),
    )


def _traffic() -> Section:
    return Section(
        title="Requests",
        panels=(
            over_time(
                "Requests",
                {"{{model}}": f"sum by (model) ({rate('nv_inference_request_success')})"},
                Text(
                    asks="How much is asked of it, and when?",
                    when_bad="A sudden end: its users' side, or its Service; compare with the pods that are ready.",
                ),
                Look(unit=units.RequestsPerSecond),
            ),
            over_time(
                "Failures by reason",
                {"{{version}} {{reason}}": f"sum by (version, reason) ({rate('nv_inference_request_failure')})"},
                Text(
                    asks="Why do requests fail?",
                    when_bad="REJECTED: full queue, add replicas. BACKEND: the model raised, see the logs. CANCELED: "
                    "clients gave up, it is too slow. OTHER: requests that do not fit the model.",
                ),
                Look(unit=units.RequestsPerSecond, stacked=True),
            ),
            over_time(
                "Answers by HTTP status",
                {"{{status}}": f"sum by (status) ({rate('athanor_http_responses')})"},
                Text(
                    asks="What do clients get?",
                    when_bad="4xx: a client's mistake, look who. 429 and 503: too much load. 500: the model.",
                ),
                Look(unit=units.RequestsPerSecond, stacked=True),
            ),
            over_time(
                "Where the time of a request goes",
                {
                    "waits in the queue": _mean_of_request("nv_inference_queue_duration_us"),
                    "in the model": _mean_of_request("nv_inference_compute_infer_duration_us"),
                    "in all": _mean_of_request("nv_inference_request_duration_us"),
                },
                Text(
                    asks="Is it the queue, the model, or reading and writing the request?",
                    when_bad="Queue: more replicas. Model: batching, another precision. Neither: large JSON, use the "
                    "binary extension.",
                ),
                Look(unit=units.Seconds),
            ),
        ),
    )


def _mean_of_request(counter: str) -> str:
    return f"sum({rate(counter)}) / sum({rate('nv_inference_request_success')}) / 1e6"


def _batches() -> Section:
    return Section(
        title="Batches and queue",
        panels=(
            over_time(
                "Rows per call of the model",
                {"mean": f"max(service:batch_size:mean{{{WORKLOAD}}})"},
                Text(
                    asks="Are requests batched?",
                    when_bad="1 under load: the batching delay is too short or the model's batch dimension is fixed.",
                ),
            ),
            over_time(
                "Wait in the queue",
                {"mean": f"max(service:queue_seconds:mean{{{WORKLOAD}}})"},
                Text(
                    asks="How long does a request wait for the model?",
                    when_bad="Longer than the batching delay: the model is busy; more replicas.",
                ),
                Look(unit=units.Seconds),
            ),
            over_time(
                "Requests in the queue",
                {"{{pod}}": most(10, f"sum by (pod) (nv_inference_pending_request_count{{{WORKLOAD}}})")},
                Text(
                    asks="Do requests pile up, and where?",
                    when_bad="On one pod alone: clients hold their connections to it; spread them.",
                ),
            ),
            over_time(
                "Rows and calls",
                {
                    "rows per second": f"sum({rate('nv_inference_count')})",
                    "calls per second": f"sum({rate('nv_inference_exec_count')})",
                },
                Text(
                    asks="How much does the model compute?",
                    when_bad="Calls close to rows: batching brings nothing.",
                ),
            ),
        ),
    )


def _versions() -> Section:
    return Section(
        title="Model versions",
        panels=(
            rows(
                "Versions loaded",
                f"count by (model, version) (nv_inference_count{{{WORKLOAD}}})",
                {"model": "model", "version": "version", "Value": "pods"},
                Text(
                    asks="Which versions are served, by how many pods?",
                    when_bad="More than expected: an old one is kept; fewer: the new one could not be loaded.",
                ),
                Look(unit=units.NoUnit),
            ),
            over_time(
                "Requests by version",
                {"{{model}} {{version}}": f"sum by (model, version) ({rate('nv_inference_request_success')})"},
                Text(
                    asks="Which version answers how much?",
                    when_bad="A canary with none: its weight or its pods. All on an old one: the new one is not ready.",
                ),
                Look(unit=units.RequestsPerSecond, stacked=True),
            ),
            over_time(
                "Versions that could not be loaded",
                {"{{pod}} {{model}}": f"sum by (pod, model) (increase(athanor_model_load_failure{{{WORKLOAD}}}[1h]))"},
                Text(
                    asks="Did a new version fail to load, within an hour?",
                    when_bad="The log names the file and the reason; the old version goes on answering.",
                ),
            ),
        ),
    )
