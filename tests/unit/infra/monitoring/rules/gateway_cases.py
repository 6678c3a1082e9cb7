"""What clients get from the gateway, and when somebody must know."""

from tests.unit.infra.monitoring.rules.promtool import AlertCase, series

_SERVICE = {"namespace": "team", "workload": "answers"}


def responses(status, samples, workload="answers", *, rule=0, proxy=1):
    """Return what a proxy counts of a rule's responses."""
    labels = {
        "job": "gateway",
        "instance": f"10.0.0.{proxy}:19001",
        "namespace": "team",
        "workload": workload,
        "envoy_cluster_name": f"httproute/team/{workload}/rule/{rule}",
        "envoy_response_code": status,
    }
    return {series("envoy_cluster_upstream_rq", labels): samples}


def own(name, samples, proxy=1):
    """Return what a proxy counts of the requests that it answers itself."""
    labels = {"job": "gateway", "instance": f"10.0.0.{proxy}:19001", "envoy_http_conn_manager_prefix": "https-10443"}
    return {series(name, labels): samples}


_DIRECT, _NO_CLUSTER = "envoy_http_rq_direct_response", "envoy_http_no_cluster"

CASES = (
    AlertCase(
        alert="ServiceErrorsAtGateway",
        says="every tenth request, over both rules and proxies; one in fifty, and errors of clients, say nothing",
        series={
            **responses("200", "0+540x30 16200+600x30"),
            **responses("503", "0+30x30 900x30", rule=1),
            **responses("504", "0+30x30 900x30", proxy=2),
            **responses("200", "0+98x60", "good"),
            **responses("503", "0+2x60", "good"),
            **responses("404", "0+100x60", "asked-wrongly"),
        },
        fires={"8m": [_SERVICE], "30m": [_SERVICE]},
        quiet=["5m", "40m"],
    ),
    AlertCase(
        alert="ServiceErrorsAtGateway",
        says="all requests, from the first that was ever counted, until the pods answer",
        series={
            **responses("503", "_x9 60+60x20 1260x40"),
            **responses("200", "_x30 60+60x40"),
        },
        fires={"17m": [_SERVICE], "30m": [_SERVICE]},
        quiet=["14m", "45m"],
    ),
    AlertCase(
        alert="ServiceErrorsAtGateway",
        says="few requests say nothing",
        series=responses("503", "0x10 1x10 2x10 3x30"),
        fires={},
        quiet=["15m", "30m"],
    ),
    AlertCase(
        alert="GatewayRouteBroken",
        says="a proxy answers by itself, until the route works again; one request is nothing to see",
        series={
            **own(_DIRECT, "0x10 1x20 2+2x20 42x40"),
            **own(_NO_CLUSTER, "0x90"),
            **own(_DIRECT, "0x90", proxy=2),
            **own(_NO_CLUSTER, "0x90", proxy=2),
        },
        fires={"38m": [{}], "50m": [{}]},
        quiet=["16m", "30m", "60m"],
    ),
    AlertCase(
        alert="GatewayRouteBroken",
        says="a route leads in part to what is not there",
        series={**own(_DIRECT, "0x60"), **own(_NO_CLUSTER, "0x10 0+1x20 20x40")},
        fires={"20m": [{}]},
        quiet=["10m", "45m"],
    ),
)
