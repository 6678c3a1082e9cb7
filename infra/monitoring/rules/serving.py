"""Rules about services of models: rates, errors, latencies, and the burn rates of their error budgets.

Windows and factors: Google, The Site Reliability Workbook, chapter 5, "Multiwindow, Multi-Burn-Rate Alerts", table 5-8,
for a promise over 30 days. Metrics: trainer/serve/metrics.py, where those of Triton have Triton's names; Triton has no
histogram of request times, so that nothing is said about its latency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring.rules.pods import WORKLOAD_INFO, of_workload
from infra.monitoring.rules.rule import Alert, Area, Recording
from infra.settings.alert_thresholds import FASTEST_BURN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.alert_thresholds import ServingThresholds

_SERVICE = "namespace, workload"
_WINDOWS = ("5m", "30m", "1h", "6h", "3d")
_PAGE = (("1h", "5m", FASTEST_BURN), ("6h", "30m", 6))
"""Long window, short window, multiple of the budget's even use: 2 % of the budget in an hour, 5 % in six."""
_TICKET = (("3d", "6h", 1),)
"""10 % of the budget in three days."""
_ERRORS = "service:errors:ratio_rate"
_SLOW = "service:slow:ratio_rate"
# A client that leaves (CANCELED) or sends nonsense (OTHER) is not a fault of the service.
_FAULTS = 'nv_inference_request_failure{reason=~"REJECTED|BACKEND"}'
_CANCELED = 'nv_inference_request_failure{reason="CANCELED"}'
_SUCCESSES = "nv_inference_request_success"
_WAKING = "15m"
_SHADOW_WINDOW = "1h"
_SHADOW_RATIO = 0.05
"""Share of the compared requests: a shadow that loses or changes more than one in twenty is not ready to take over."""
_MANY_RESTARTS = 3
"""Restarts of one model within an hour: one is restarted within seconds, and answers its requests."""
_NAMED = "{{ $labels.namespace }}/{{ $labels.workload }}"


def area(limits: ServingThresholds) -> Area:
    """Return the rules of services."""
    return Area(
        name="serving",
        recordings=_recordings(limits),
        alerts=(*_burn(limits), _canceled(limits), *_models(limits), *_shadows(limits)),
    )


def _recordings(limits: ServingThresholds) -> Sequence[Recording]:
    return (
        Recording(record="service:requests:rate5m", expr=_requests("rate", "5m")),
        Recording(record="service:requests:increase1h", expr=_requests("increase", "1h")),
        *(Recording(record=f"{_ERRORS}{window}", expr=_error_ratio(window)) for window in _WINDOWS),
        Recording(
            record="service:canceled:ratio_rate5m",
            expr=f"""
                {_sum("rate", _CANCELED, "5m")} / ({_all_requests("rate", "5m")} > 0)""",
        ),
        *(Recording(record=f"{_SLOW}{window}", expr=_slow_ratio(window, limits)) for window in _WINDOWS),
        *(
            Recording(
                record=f"service:latency_seconds:p{percent}",
                expr=f"""
                    histogram_quantile({percent / 100:g},
                      sum by ({_SERVICE}, le) (rate(athanor_request_duration_seconds_bucket[5m])))""",
            )
            for percent in (50, 99)
        ),
        Recording(
            record="service:batch_size:mean",
            expr=f"{_sum('rate', 'nv_inference_count', '5m')} / ({_sum('rate', 'nv_inference_exec_count', '5m')} > 0)",
        ),
        Recording(
            record="service:queue_seconds:mean",
            expr=f"""
                {_sum("rate", "nv_inference_queue_duration_us", "5m")} / 1e6
                / ({_sum("rate", _SUCCESSES, "5m")} > 0)""",
        ),
    )


def _sum(function: str, series: str, window: str) -> str:
    return f"sum by ({_SERVICE}) ({function}({series}[{window}]))"


def _faults(function: str, window: str) -> str:
    """Return the requests that failed by a fault of the service, 0 where none ever did."""
    return f"({_sum(function, _FAULTS, window)} or 0 * {_sum(function, _SUCCESSES, window)})"


def _requests(function: str, window: str) -> str:
    """Return the requests that the service succeeded or failed with."""
    return f"{_sum(function, _SUCCESSES, window)} + {_faults(function, window)}"


def _all_requests(function: str, window: str) -> str:
    """Return all requests, those that the clients canceled or got wrong included."""
    return f"({_sum(function, _SUCCESSES, window)} + {_sum(function, 'nv_inference_request_failure', window)})"


def _error_ratio(window: str) -> str:
    return f"{_faults('rate', window)} / (({_requests('rate', window)}) > 0)"


def _slow_ratio(window: str, limits: ServingThresholds) -> str:
    bound = f"{limits.latency_seconds:g}".replace(".", r"\\.")
    # Whole numbers are written as 1 by one library and as 1.0 by another.
    fast = f'athanor_request_duration_seconds_bucket{{le=~"{bound}(\\\\.0)?"}}'
    every = _sum("rate", "athanor_request_duration_seconds_count", window)
    return f"1 - {_sum('rate', fast, window)} / ({every} > 0)"


def _burn(limits: ServingThresholds) -> Sequence[Alert]:
    errors, slow = 1 - limits.availability_objective, 1 - limits.latency_objective
    failing = ("requests failed", f"{percent(errors)} of all requests fail")
    slowly = (
        "responses were too slow",
        f"{percent(slow)} of all responses take longer than {limits.latency_seconds:g} s",
    )
    return tuple(
        Alert(
            name=name,
            expr=_burning(ratio, windows, budget, limits),
            for_seconds=limits.burn_for_seconds,
            severity="page" if windows is _PAGE else "ticket",
            summary=f"{_NAMED} {what}",
            description=f"{{{{ $value | humanizePercentage }}}} of recent {recently}. At this rate, more than {broken} "
            "over 30 days.",
        )
        for name, ratio, windows, budget, what, (recently, broken) in (
            ("ServiceErrorsBurnFast", _ERRORS, _PAGE, errors, "is failing many requests", failing),
            ("ServiceErrorsBurnSlow", _ERRORS, _TICKET, errors, "has been failing a few requests for days", failing),
            ("ServiceLatencyBurnFast", _SLOW, _PAGE, slow, "is answering far too slowly", slowly),
            ("ServiceLatencyBurnSlow", _SLOW, _TICKET, slow, "has been a little too slow for days", slowly),
        )
    )


def _canceled(limits: ServingThresholds) -> Alert:
    """Return the alert about clients that give up, which the objectives count neither as errors nor as slow."""
    return Alert(
        name="ServiceRequestsCanceled",
        expr=f"""
            service:canceled:ratio_rate5m > {limits.canceled_ratio:.6g}
            and on ({_SERVICE}) {_all_requests("increase", "1h")} >= {limits.minimum_requests_per_hour}""",
        for_seconds=limits.canceled_for_seconds,
        severity="ticket",
        summary=f"{_NAMED} answers too late for its clients",
        description="{{ $value | humanizePercentage }} of recent requests were canceled before they were answered.",
    )


def percent(ratio: float) -> str:
    """Return a ratio as people write it: 0.999 as 99.9%."""
    return f"{100 * ratio:.6g}%"


def _burning(ratio: str, windows: Sequence[tuple[str, str, float]], budget: float, limits: ServingThresholds) -> str:
    """Return the services whose budget burned too fast over a long window and does so still, with enough requests."""
    pairs = [
        f"({ratio}{long} > {factor * budget:.6g} and {ratio}{short} > {factor * budget:.6g})"
        for long, short, factor in windows
    ]
    asked = f"service:requests:increase1h >= {limits.minimum_requests_per_hour}"
    return f"({' or '.join(pairs)}) and on ({_SERVICE}) {asked}"


def _models(limits: ServingThresholds) -> Sequence[Alert]:
    window = f"[{limits.load_failure_window_seconds}s]"
    ready = of_workload('max by (namespace, pod) (kube_pod_status_ready{condition="true"}) == 1', "workload")
    return (
        Alert(
            name="ModelLoadFailed",
            # One that failed before the first scrape never increases: then no version was loaded at all.
            expr=f"""
                max by ({_SERVICE}, model) (increase(athanor_model_load_failure{window})) > 0
                or max by ({_SERVICE}, model) (athanor_model_load_failure > 0 unless athanor_model_load_success > 0)""",
            for_seconds=0,
            severity="ticket",
            summary=f"{_NAMED} cannot load a version of {{{{ $labels.model }}}}",
            description="The previous version stays in use if there is one. The server's log names the reason.",
        ),
        Alert(
            name="ServiceUnavailable",
            expr=f"""
                group by ({_SERVICE}) ({WORKLOAD_INFO}{{kind="service"}})
                unless on ({_SERVICE}) {ready}""",
            for_seconds=limits.unavailable_for_seconds,
            severity="page",
            summary=f"{_NAMED} has no ready pod",
            description="Every request fails. `make status` shows its pods; the runbook lists what to check.",
        ),
        Alert(
            name="ModelRestartsOften",
            expr=f"""
                max by ({_SERVICE}, model) (increase(athanor_model_worker_restarts[1h])) >= {_MANY_RESTARTS}""",
            for_seconds=0,
            severity="ticket",
            summary=f"The process of {{{{ $labels.model }}}} in {_NAMED} keeps ending",
            description="Its requests wait for each restart, the other models answer. The log names the signal.",
        ),
        Alert(
            name="ServiceNotWoken",
            expr=f"""
                sum by ({_SERVICE}) (increase(athanor_activator_requests_total{{outcome="timeout"}}[{_WAKING}])) > 0""",
            for_seconds=0,
            severity="ticket",
            summary=f"{_NAMED} had no pod when requests came, and none was ready in time",
            description="The requests that waited for its first pod got status 503.",
        ),
    )


def _shadows(limits: ServingThresholds) -> Sequence[Alert]:
    """Return the alerts for the owner of a shadow: clients get none of its answers."""
    return (
        Alert(
            name="ShadowAnswersDiffer",
            expr=_shadow_share("different", limits),
            for_seconds=0,
            severity="ticket",
            summary=f"The shadow of {_NAMED} gives other answers than the service",
            description="{{ $value | humanizePercentage }} of the requests of an hour got other values, beyond the "
            "tolerance. Clients do not see them.",
        ),
        Alert(
            name="ShadowFails",
            expr=_shadow_share("failed", limits),
            for_seconds=0,
            severity="ticket",
            summary=f"The shadow of {_NAMED} fails requests that the service answers",
            description="{{ $value | humanizePercentage }} of the requests of an hour had no answer to compare. "
            "Clients do not notice.",
        ),
    )


def _shadow_share(outcome: str, limits: ServingThresholds) -> str:
    """Return the share of the requests sent to a shadow that had an outcome, where it is too large and of enough."""
    sent = _sum("increase", 'athanor_shadow_requests{outcome!="dropped"}', _SHADOW_WINDOW)
    share = _sum("increase", f'athanor_shadow_requests{{outcome="{outcome}"}}', _SHADOW_WINDOW)
    return f"{share} / {sent} > {_SHADOW_RATIO:g} and {sent} >= {limits.minimum_requests_per_hour}"
