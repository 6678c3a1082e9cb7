"""Rules about the gateway: error responses to clients outside the cluster.

Metrics: infra/gateway/proxy_metrics.py. Envoy retries requests whose pod disappeared; it counts the responses that
clients get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring.rules.rule import Alert, Area

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import ServingThresholds

_SERVICE = "namespace, workload"
_RESPONSES = "envoy_cluster_upstream_rq"
_ERRORS = f'{_RESPONSES}{{envoy_response_code=~"5.."}}'


def area(limits: ServingThresholds) -> Area:
    """Return the rules of a gateway."""
    return Area(name="gateway", alerts=(_errors_of_a_service(limits), _broken_route(limits)))


def _errors_of_a_service(limits: ServingThresholds) -> Alert:
    return Alert(
        name="ServiceErrorsAtGateway",
        expr=f"""
            sum by ({_SERVICE}) (rate({_ERRORS}[5m])) / sum by ({_SERVICE}) (rate({_RESPONSES}[5m]))
            > {limits.gateway_error_ratio:.6g}
            and on ({_SERVICE})
            sum by ({_SERVICE}) (increase({_RESPONSES}[1h])) >= {limits.minimum_requests_per_hour}""",
        for_seconds=limits.gateway_error_for_seconds,
        severity="page",
        summary="Clients outside the cluster get errors from {{ $labels.namespace }}/{{ $labels.workload }}",
        description="{{ $value | humanizePercentage }} of recent requests through the gateway ended with a 5xx status: "
        "the service's own, or the gateway's because no pod answered in time.",
    )


def _broken_route(limits: ServingThresholds) -> Alert:
    """Return the alert about routes that Envoy Gateway replaces by a status, which no service counts."""
    return Alert(
        name="GatewayRouteBroken",
        expr="sum(increase(envoy_http_rq_direct_response[5m])) + sum(increase(envoy_http_no_cluster[5m])) > 0",
        for_seconds=limits.gateway_error_for_seconds,
        severity="page",
        summary="The gateway answers requests with errors because it cannot follow a route",
        description="Status 500: the route or a policy names what is not there, such as a Secret. Status 503: no pod "
        "of the service is ready.",
    )
