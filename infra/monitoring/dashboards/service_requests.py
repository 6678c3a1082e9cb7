"""The rows of a service's dashboard about its requests, their batches and the versions of its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import Look, Text, over_time, rows
from infra.monitoring.dashboards.promql import WORKLOAD, most, rate

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel


def traffic() -> Section:
    """Return the row about requests, by outcome and by where their time goes."""
    return Section(
        title="Requests",
        panels=(
            _requests(),
            _failures_by_reason(),
            _rejected_requests(),
            _responses_by_http_status(),
            _responses_by_grpc_status(),
            _time_per_request_by_stage(),
        ),
    )


def _requests() -> Panel:
    return over_time(
        "Requests",
        {"{{model}}": f"sum by (model) ({rate('nv_inference_request_success')})"},
        Text(
            asks="How many requests does it get, and when?",
            when_bad="A sudden stop: check the clients and the Service; compare with the number of ready pods.",
        ),
        Look(unit=units.RequestsPerSecond),
    )


def _failures_by_reason() -> Panel:
    return over_time(
        "Failures by reason",
        {"{{version}} {{reason}}": f"sum by (version, reason) ({rate('nv_inference_request_failure')})"},
        Text(
            asks="Why do requests fail?",
            when_bad="REJECTED: the queue was full, add replicas. BACKEND: the model raised an exception, read the"
            " logs. CANCELED: clients gave up, it is too slow. OTHER: requests that do not fit the model.",
        ),
        Look(unit=units.RequestsPerSecond, stacked=True),
    )


def _rejected_requests() -> Panel:
    return over_time(
        "Rejected requests",
        {"priority {{priority}}: {{cause}}": f"sum by (priority, cause) ({rate('athanor_rejected_requests')})"},
        Text(
            asks="Which priorities does the queue reject, and why?",
            when_bad="queue_full: it gets more requests than it can handle, add replicas. timeout: they waited longer"
            " than config.pbtxt or the client allows. Only low priorities: the high ones take all of the model's time.",
        ),
        Look(unit=units.RequestsPerSecond, stacked=True),
    )


def _responses_by_grpc_status() -> Panel:
    return over_time(
        "Responses by gRPC status",
        {"{{code}}": f"sum by (code) ({rate('athanor_grpc_responses')})"},
        Text(
            asks="Which responses do clients get over gRPC?",
            when_bad="INVALID_ARGUMENT and NOT_FOUND: an error of a client. RESOURCE_EXHAUSTED and UNAVAILABLE: too"
            " much load. INTERNAL: the model.",
        ),
        Look(unit=units.RequestsPerSecond, stacked=True),
    )


def _responses_by_http_status() -> Panel:
    return over_time(
        "Responses by HTTP status",
        {"{{status}}": f"sum by (status) ({rate('athanor_http_responses')})"},
        Text(
            asks="Which responses do clients get?",
            when_bad="4xx: an error of a client. 429 and 503: too much load. 500: the model.",
        ),
        Look(unit=units.RequestsPerSecond, stacked=True),
    )


def _time_per_request_by_stage() -> Panel:
    return over_time(
        "Time per request by stage",
        {
            "in the queue": _mean_of_request("nv_inference_queue_duration_us"),
            "in the model": _mean_of_request("nv_inference_compute_infer_duration_us"),
            "total": _mean_of_request("nv_inference_request_duration_us"),
        },
        Text(
            asks="Where does the time go: the queue, the model, or reading and writing?",
            when_bad="Queue: add replicas. Model: use batching or another precision. Neither: JSON bodies are large,"
            " use the binary extension.",
        ),
        Look(unit=units.Seconds),
    )


def _mean_of_request(counter: str) -> str:
    return f"sum({rate(counter)}) / sum({rate('nv_inference_request_success')}) / 1e6"


def batches() -> Section:
    """Return the row about waiting and batching of requests."""
    return Section(
        title="Batches and queue",
        panels=(
            _batch_size(),
            _wait_in_the_queue(),
            _requests_in_the_queue(),
            _batches_in_the_model(),
            _rows_and_model_calls(),
        ),
    )


def _batch_size() -> Panel:
    return over_time(
        "Batch size",
        {"mean": f"max(service:batch_size:mean{{{WORKLOAD}}})"},
        Text(
            asks="How many rows does one call of the model process?",
            when_bad="1 under load: the batching delay is too short, or the model's batch dimension is fixed.",
        ),
    )


def _wait_in_the_queue() -> Panel:
    return over_time(
        "Wait in the queue",
        {"mean": f"max(service:queue_seconds:mean{{{WORKLOAD}}})"},
        Text(
            asks="How long does a request wait for the model?",
            when_bad="Longer than the batching delay: the model is busy; add replicas.",
        ),
        Look(unit=units.Seconds),
    )


def _requests_in_the_queue() -> Panel:
    return over_time(
        "Requests in the queue",
        {"{{pod}}": most(10, f"sum by (pod) (nv_inference_pending_request_count{{{WORKLOAD}}})")},
        Text(
            asks="Do requests pile up, and where?",
            when_bad="On a single pod: clients keep their connections to it; spread them.",
        ),
    )


def _batches_in_the_model() -> Panel:
    return over_time(
        "Batches in the model",
        {"{{pod}}": most(10, f"sum by (pod) (athanor_running_batches{{{WORKLOAD}}})")},
        Text(
            asks="How many batches does each pod compute at the same time?",
            when_bad="Always as many as the model has instances while requests wait: add replicas. Above 0 without"
            " requests: a call of the model does not return.",
        ),
    )


def _rows_and_model_calls() -> Panel:
    return over_time(
        "Rows and model calls",
        {
            "rows per second": f"sum({rate('nv_inference_count')})",
            "calls per second": f"sum({rate('nv_inference_exec_count')})",
        },
        Text(
            asks="How much does the model compute?",
            when_bad="Calls close to rows: batching has no effect.",
        ),
    )


def versions() -> Section:
    """Return the row about the versions of the model."""
    return Section(
        title="Model versions",
        panels=(
            _versions_loaded(),
            _requests_by_version(),
            _time_to_load(),
            _failed_version_loads(),
            _restarts_of_models(),
        ),
    )


def _versions_loaded() -> Panel:
    return rows(
        "Versions loaded",
        f"count by (model, version) (nv_inference_count{{{WORKLOAD}}})",
        {"model": "model", "version": "version", "Value": "pods"},
        Text(
            asks="Which versions are served, and by how many pods?",
            when_bad="More than expected: an old version is still loaded. Fewer: the new version could not be loaded.",
        ),
        Look(unit=units.NoUnit),
    )


def _requests_by_version() -> Panel:
    return over_time(
        "Requests by version",
        {"{{model}} {{version}}": f"sum by (model, version) ({rate('nv_inference_request_success')})"},
        Text(
            asks="How many requests does each version answer?",
            when_bad="A canary with none: check its weight and its pods. All on the old version: the new one is not "
            "ready.",
        ),
        Look(unit=units.RequestsPerSecond, stacked=True),
    )


def _time_to_load() -> Panel:
    by_version = "by (model, version)"
    return over_time(
        "Time to load",
        {
            "{{model}} {{version}}": f"max {by_version} (athanor_model_load_seconds{{{WORKLOAD}}})",
            "{{model}} {{version}}, warm-up": f"max {by_version} (athanor_model_warmup_seconds{{{WORKLOAD}}})",
        },
        Text(
            asks="How long did a version take before it answered, and how much of that was its warm-up?",
            when_bad="The warm-up: use a smaller max_batch_size, or model_warmup in config.pbtxt. The rest: the volume"
            " is slow, or the file large.",
        ),
        Look(unit=units.Seconds),
    )


def _restarts_of_models() -> Panel:
    return over_time(
        "Restarts of models",
        {"{{pod}} {{model}}": f"sum by (pod, model) (increase(athanor_model_worker_restarts{{{WORKLOAD}}}[1h]))"},
        Text(
            asks="Did the process of one of several models die within an hour?",
            when_bad="The log names the signal or exit code. Killed by signal 9: a limit of memory; raise the pod's, or"
            " set max_memory_mib.",
        ),
    )


def _failed_version_loads() -> Panel:
    return over_time(
        "Failed version loads",
        {"{{pod}} {{model}}": f"sum by (pod, model) (increase(athanor_model_load_failure{{{WORKLOAD}}}[1h]))"},
        Text(
            asks="Did a new version fail to load within an hour?",
            when_bad="The log names the file and the reason; the old version continues to answer.",
        ),
    )
