"""The row of a service's dashboard about the gateway: responses to clients outside the cluster, and activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import Look, Text, over_time
from infra.monitoring.dashboards.promql import WORKLOAD, increase, quantile, rate

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel

_ALL_SERVICES = ""
"""Matchers of what the proxies count for all services together."""
_HELD = "athanor_activator_held_seconds"


def gateway() -> Section:
    """Return the row about requests through the gateway, and starts of a service that scales to zero."""
    return Section(
        title="Gateway",
        panels=(
            _responses_by_status(),
            _not_answered(),
            _refused(),
            _responses_by_class(),
            _time(),
            _woken(),
            _starts(),
            _wait_for_the_first_pod(),
        ),
    )


def _responses_by_status() -> Panel:
    responses = rate("envoy_cluster_upstream_rq")
    return over_time(
        "Responses at the gateway",
        {"{{envoy_response_code}}": f"sum by (envoy_response_code) ({responses})"},
        Text(
            asks="Which responses do clients outside the cluster get, among the requests that the gateway admits?",
            when_bad="503 or 504: see the next panel. Others: the service's own, which its panels explain.",
        ),
        Look(unit=units.RequestsPerSecond, stacked=True),
    )


def _not_answered() -> Panel:
    return over_time(
        "Requests without an answer",
        {
            "no pod": f"sum({rate('envoy_cluster_upstream_cx_none_healthy')})",
            "too late": f"sum({rate('envoy_cluster_upstream_rq_timeout')})",
        },
        Text(
            asks="For how many requests did the gateway get no answer from the service?",
            when_bad="no pod, status 503: see ServiceUnavailable. too late, status 504: it takes longer than"
            " timeout_seconds of expose; add replicas.",
        ),
        Look(unit=units.RequestsPerSecond, stacked=True),
    )


def _refused() -> Panel:
    return over_time(
        "Refused by the gateway, all services",
        {
            "401, token": _of_all("envoy_http_api_key_auth_unauthorized"),
            "401 or 403, signed token": _of_all("envoy_http_jwt_authn_denied"),
            "429, rate limit": _of_all("envoy_http_local_rate_limit_rate_limited"),
            "500 or 503, broken route": f"{_of_all('envoy_http_rq_direct_response')} + "
            f"{_of_all('envoy_http_no_cluster')}",
        },
        Text(
            asks="How many requests does the gateway refuse, and why?",
            when_bad="401: a client's token was deleted or has expired, or strangers try. 429: raise rate_limit of"
            " expose, or replicas of the gateway. Broken route: see GatewayRouteBroken.",
        ),
        Look(unit=units.RequestsPerSecond, stacked=True),
    )


def _responses_by_class() -> Panel:
    responses = rate("envoy_http_downstream_rq_xx", _ALL_SERVICES)
    return over_time(
        "Responses of the gateway, all services",
        {"{{envoy_response_code_class}}xx": f"sum by (envoy_response_code_class) ({responses})"},
        Text(
            asks="Which responses do clients get, refusals included? Those of gRPC are 2xx, errors too.",
            when_bad="4xx without refusals in the panel before: a host that no service has. 5xx: compare with the"
            " responses of each service.",
        ),
        Look(unit=units.RequestsPerSecond, stacked=True),
    )


def _time() -> Panel:
    levels = {"median": 0.5, "99th percentile": 0.99}
    return over_time(
        "Time at the gateway, all services",
        {
            name: quantile(level, "envoy_http_downstream_rq_time", matchers=_ALL_SERVICES)
            for name, level in levels.items()
        },
        Text(
            asks="How long do requests take for clients, with retries and the wait for a first pod?",
            when_bad="Longer than the services' own latency: requests are tried again, wait for a pod, or clients"
            " are slow.",
        ),
        Look(unit=units.Milliseconds),
    )


def _woken() -> Panel:
    requests = rate("athanor_activator_requests_total")
    return over_time(
        "Requests while it may sleep",
        {
            "{{outcome}}": f"sum by (outcome) ({requests})",
            "waiting": f"sum(athanor_activator_waiting_requests{{{WORKLOAD}}})",
        },
        Text(
            asks="Do requests find a pod, where the service scales to zero?",
            when_bad="held, often: raise idle_seconds, so that fewer wait for the first pod. timeout: none was ready"
            " in time; see ServiceNotWoken.",
        ),
        Look(unit=units.RequestsPerSecond),
    )


def _starts() -> Panel:
    return over_time(
        "Starts and stops",
        {
            "started for a request": f"sum({increase('athanor_activator_starts_total')})",
            "stopped without requests": f"sum({increase('athanor_activator_stops_total')})",
        },
        Text(
            asks="How often does the service start because somebody asks, and stop because nobody does?",
            when_bad="Many in an hour: raise idle_seconds, or keep one pod with minimum=1.",
        ),
    )


def _wait_for_the_first_pod() -> Panel:
    return over_time(
        "Wait for the first pod",
        {"median": quantile(0.5, _HELD), "99th percentile": quantile(0.99, _HELD)},
        Text(
            asks="How long do requests wait that found no pod?",
            when_bad="Near hold_seconds: some get status 503. Use a smaller model or image, or keep one pod.",
        ),
        Look(unit=units.Seconds),
    )


def _of_all(counter: str) -> str:
    return f"sum({rate(counter, _ALL_SERVICES)})"
