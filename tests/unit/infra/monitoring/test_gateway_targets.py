"""What is read of the gateway, and whose the series are."""

from __future__ import annotations

import re

from infra.gateway.proxies import class_manifests
from infra.gateway.proxy_metrics import FILTER
from infra.monitoring.gateway_targets import gateway_targets
from infra.monitoring.kept_metrics import KEPT_METRICS
from infra.settings.gateway import GatewaySettings
from tests.tables import each_row
from tests.unit.infra.monitoring.relabeling import stored
from trainer.activator.metrics import ActivatorMetrics

TARGET = {
    "instance": "10.0.0.7:19001",
    "namespace": "gateway-system",
    "pod": "gateway-5d9c8b7f6d-x2x7k",
    "container": "envoy",
    "endpoint": "metrics",
}
LISTENER = {"envoy_http_conn_manager_prefix": "https-10443"}
# As Envoy 1.39 names them, configured as by Envoy Gateway 1.9.
READ = (
    "cluster.httproute/athanor/digits/rule/0.upstream_rq_200",
    "cluster.httproute/athanor/digits/rule/0/backend/1.upstream_rq_504",
    "cluster.httproute/athanor/digits/rule/12.upstream_cx_none_healthy",
    "cluster.httproute/athanor/digits/rule/0.upstream_rq_timeout",
    "http.https-10443.downstream_rq_4xx",
    "http.https-10443.downstream_rq_time",
    "http.https-10443.api_key_auth.unauthorized",
    "http.https-10443.jwt_authn.denied",
    "http.https-10443.rq_direct_response",
    "http.https-10443.no_cluster",
    "http_local_rate_limiter.http_local_rate_limit.rate_limited",
    "server.live",
)
NOT_READ = (
    "cluster.httproute/athanor/digits/rule/0.external.upstream_rq_200",
    "cluster.httproute/athanor/digits/rule/0.retry.upstream_rq_503",
    "cluster.httproute/athanor/digits/rule/0.upstream_rq_2xx",
    "cluster.httproute/athanor/digits/rule/0.upstream_rq_per_try_timeout",
    "cluster.httproute/athanor/digits/rule/0.upstream_rq_time",
    "cluster.xds_cluster.upstream_rq_200",
    "http.admin.downstream_rq_2xx",
    "http.eg-ready-http.downstream_rq_2xx",
    "http.https-10443.downstream_rq_total",
    "server.live_workers",
)


def kept_of_proxies(**sample: str) -> dict[str, str]:
    series = stored({"spec": gateway_targets()["gateway"]}, TARGET, sample)
    assert series is not None
    return series


def rule(number: str) -> dict[str, str]:
    return kept_of_proxies(
        __name__="envoy_cluster_upstream_rq",
        envoy_cluster_name=f"httproute/team/digits/rule/{number}",
        envoy_response_code="503",
    )


def test_a_response_belongs_to_the_service() -> None:
    assert rule("0") == {
        "__name__": "envoy_cluster_upstream_rq",
        "job": "gateway",
        "instance": "10.0.0.7:19001",
        "namespace": "team",
        "workload": "digits",
        "envoy_cluster_name": "httproute/team/digits/rule/0",
        "envoy_response_code": "503",
    }


def test_rules_of_a_route_are_series_of_one_service() -> None:
    every = [rule(number) for number in ("0", "1", "1/backend/0")]
    assert {(each["namespace"], each["workload"]) for each in every} == {("team", "digits")}
    assert len({each["envoy_cluster_name"] for each in every}) == len(every)


def test_what_is_counted_for_all_services_belongs_to_none() -> None:
    series = kept_of_proxies(__name__="envoy_http_downstream_rq_xx", envoy_response_code_class="5", **LISTENER)
    assert not series.keys() & {"namespace", "workload", "pod", "container", "endpoint"}
    assert series["instance"] == TARGET["instance"]


@each_row("name", READ)
def test_a_proxy_is_asked_for_what_is_kept(name: str) -> None:
    assert re.search(FILTER, name)


@each_row("name", NOT_READ)
def test_a_proxy_is_asked_for_nothing_else(name: str) -> None:
    assert not re.search(FILTER, name)


def test_the_filter_is_part_of_the_scrape() -> None:
    (endpoint,) = gateway_targets()["gateway"]["podMetricsEndpoints"]
    assert endpoint["params"] == {"filter": [FILTER]}
    # The operator's configuration reloader replaces such words by variables of its environment.
    assert "$(" not in FILTER


def test_the_proxies_are_found_by_what_their_network_policy_selects() -> None:
    policy = class_manifests(GatewaySettings(enabled=True), "athanor", str)["gateway-network"]
    spec = gateway_targets()["gateway"]
    assert spec["selector"]["matchLabels"] == policy["spec"]["podSelector"]["matchLabels"]
    assert spec["namespaceSelector"] == {"matchNames": [policy["metadata"]["namespace"]]}


def test_what_is_kept_of_the_activator_is_what_it_counts() -> None:
    metrics = ActivatorMetrics("team")
    metrics.of(metrics.requests, "digits", "held").inc()
    metrics.of(metrics.waiting, "digits").set(1)
    metrics.of(metrics.held, "digits").observe(1)
    metrics.of(metrics.starts, "digits").inc()
    metrics.of(metrics.stops, "digits").inc()
    names = set(re.findall(r"^(\w+)\{", metrics.render().decode(), re.MULTILINE))
    assert set(KEPT_METRICS["activator"]) <= names
