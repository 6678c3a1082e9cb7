"""The metrics of the gateway's proxies that are kept: a few of Envoy's hundreds for each rule of a route.

Source: Envoy 1.39, "Statistics" of the HTTP connection manager, of its filters and of clusters, and "Administration
interface"; Envoy Gateway 1.9, internal/xds, for the names of clusters and listeners in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = "/stats/prometheus"
ROUTE_OF_CLUSTER = "httproute/([^/]+)/([^/]+)/rule/.*"
"""Name of the cluster of a rule: namespace and name of the route, which are those of the service."""
# A route's name has no dot, and one in the rest of the name begins a copy: `external.upstream_rq_200`.
_RULES = r"cluster\.httproute/[^.]*\."
_LISTENER = r"http\.https-\d+\."
PROXY_METRICS: Mapping[str, str] = {
    # By status, of the service's own responses and of those for which the proxy got none in time or had nobody to ask.
    "envoy_cluster_upstream_rq": _RULES + r"upstream_rq_\d\d\d",
    "envoy_cluster_upstream_rq_timeout": _RULES + "upstream_rq_timeout",
    "envoy_cluster_upstream_cx_none_healthy": _RULES + "upstream_cx_none_healthy",
    # Of all services: Envoy's filters count for a whole listener.
    "envoy_http_downstream_rq_xx": _LISTENER + r"downstream_rq_\dxx",
    "envoy_http_downstream_rq_time_bucket": _LISTENER + "downstream_rq_time",
    "envoy_http_api_key_auth_unauthorized": _LISTENER + r"api_key_auth\.unauthorized",
    "envoy_http_jwt_authn_denied": _LISTENER + r"jwt_authn\.denied",
    "envoy_http_local_rate_limit_rate_limited": r"[^.]*\.http_local_rate_limit\.rate_limited",
    "envoy_http_rq_direct_response": _LISTENER + "rq_direct_response",
    "envoy_http_no_cluster": _LISTENER + "no_cluster",
    "envoy_server_live": r"server\.live",
}
"""Names in Prometheus, and regular expressions (RE2) of Envoy's own names for the same."""
FILTER = f"^({'|'.join(PROXY_METRICS.values())})$"
"""Value of the parameter `filter`, by which a proxy leaves out everything else: 3 of 100 lines remain."""
