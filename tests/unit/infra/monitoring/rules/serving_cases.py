"""How services answer, and when somebody must know."""

from tests.unit.infra.monitoring.rules.pod_cases import labelled_pod
from tests.unit.infra.monitoring.rules.promtool import AlertCase, RecordingCase, series

_SERVICE = {"namespace": "team", "workload": "answers"}


def served(name, service="answers", pod=0, **more):
    """Return the name of a series of a server."""
    labels = {
        "job": "serving",
        "namespace": "team",
        "pod": f"{service}-{pod}",
        "instance": f"10.0.0.{pod}:8002",
        "workload": service,
        "kind": "service",
        "model": "digits",
        "version": "1",
        **more,
    }
    return series(name, labels)


def requests(good, bad="0x5000", service="answers", *, reason="BACKEND"):
    """Return what a server counts of requests."""
    return {
        served("nv_inference_request_success", service): good,
        served("nv_inference_request_failure", service, reason=reason): bad,
    }


def latencies(fast, every, service="answers"):
    """Return what a server counts of answers within half a second, and of all."""
    return {
        served("nv_inference_request_success", service): every,
        served("athanor_request_duration_seconds_bucket", service, le="0.5"): fast,
        served("athanor_request_duration_seconds_bucket", service, le="1.0"): every,
        served("athanor_request_duration_seconds_bucket", service, le="+Inf"): every,
        served("athanor_request_duration_seconds_count", service): every,
    }


def _shadow(service, **counts):
    """Return what a server counts of requests for its shadow by outcome."""
    return {served("athanor_shadow_requests", service, outcome=outcome): samples for outcome, samples in counts.items()}


_READY = 'kube_pod_status_ready{namespace="team", pod="answers-0", condition="true"}'
_LOADED, _NOT_LOADED = "athanor_model_load_success", "athanor_model_load_failure"
_GIVEN_UP = {**_SERVICE, "workload": "given-up"}
_BY_MODEL = {**_SERVICE, "model": "digits"}

CASES = (
    AlertCase(
        alert="ServiceErrorsBurnFast",
        says="every tenth request fails for a while; errors of clients are not the service's",
        series={
            **requests("0+600x60 36540+540x20 47940+600x40", "0x60 60+60x20 1260x40"),
            **requests("0+600x120", "0+300x120", "clients", reason="OTHER"),
        },
        fires={"65m": [_SERVICE], "80m": [_SERVICE]},
        quiet=["64m", "120m"],
    ),
    AlertCase(
        alert="ServiceErrorsBurnFast",
        says="one failure in few requests says nothing",
        series=requests("0x30 1x60", "0x60 1x30"),
        fires={},
        quiet=["62m", "80m"],
    ),
    AlertCase(
        alert="ServiceErrorsBurnFast",
        says="7 in a thousand for six hours",
        series=requests("0+993x84 83412+1000x24", "0+7x84 588x24"),
        fires={"400m": [_SERVICE]},
        quiet=["0m", "480m"],
        interval="5m",
    ),
    AlertCase(
        alert="ServiceErrorsBurnSlow",
        says="2 in a thousand for half a day, until six hours went well",
        series={
            **requests("0+9980x72 718560+10000x42", "0+20x72 1440x42"),
            **requests("0+9995x114", "0+5x114", "good"),
        },
        fires={"12h": [_SERVICE]},
        quiet=["10m", "19h"],
        interval="10m",
    ),
    AlertCase(
        alert="ServiceLatencyBurnFast",
        says="every third answer is slow for a while",
        series={
            **latencies("0+600x60 36400+400x30 49000+600x40", "0+600x130"),
            **latencies("0+599x130", "0+600x130", "quick"),
        },
        fires={"75m": [_SERVICE], "90m": [_SERVICE]},
        quiet=["74m", "130m"],
    ),
    AlertCase(
        alert="ServiceLatencyBurnSlow",
        says="2 in a hundred for half a day, until six hours went well",
        series={
            **latencies("0+9800x72 705600+10000x42", "0+10000x114"),
            **latencies("0+9950x114", "0+10000x114", "quick"),
        },
        fires={"12h": [_SERVICE]},
        quiet=["10m", "19h"],
        interval="10m",
    ),
    AlertCase(
        alert="ServiceRequestsCanceled",
        says="every tenth request for an hour, or all of them; a few, or in few requests, say nothing",
        series={
            **requests("0+540x60 32400+600x40", "0+60x60 3600x40", reason="CANCELED"),
            **requests("0+600x100", "0+12x100", "patient", reason="CANCELED"),
            **requests("0x100", "0x20 1x80", "idle", reason="CANCELED"),
            **requests("0x100", "0+60x60 3600x40", "given-up", reason="CANCELED"),
        },
        fires={"15m": [_SERVICE, _GIVEN_UP], "60m": [_SERVICE, _GIVEN_UP]},
        quiet=["9m", "70m"],
    ),
    AlertCase(
        alert="ModelLoadFailed",
        says="a version after others, for a quarter of an hour",
        series={
            served(_LOADED): "1x100",
            served(_NOT_LOADED): "0x4 1x100",
            served(_LOADED, "other"): "2x100",
            served(_NOT_LOADED, "other"): "1x100",
        },
        fires={"6m": [_BY_MODEL], "15m": [_BY_MODEL]},
        quiet=["4m", "25m"],
    ),
    AlertCase(
        alert="ModelLoadFailed",
        says="the first one, before it was ever read, until one is loaded",
        series={served(_LOADED): "0x60 1x40", served(_NOT_LOADED): "1x100"},
        fires={"1m": [_BY_MODEL], "60m": [_BY_MODEL]},
        quiet=["61m", "100m"],
    ),
    AlertCase(
        alert="ServiceUnavailable",
        says="no pod of it is ready; one of two is enough, and jobs have no readiness",
        series={
            **labelled_pod("answers-0", service="answers"),
            _READY: "1x4 0x20 1x40",
            **labelled_pod("two-0", service="two"),
            **labelled_pod("two-1", service="two"),
            'kube_pod_status_ready{namespace="team", pod="two-0", condition="true"}': "0x100",
            'kube_pod_status_ready{namespace="team", pod="two-1", condition="true"}': "1x100",
            **labelled_pod("digits-0", job="digits"),
        },
        fires={"12m": [_SERVICE], "24m": [_SERVICE]},
        quiet=["9m", "27m"],
    ),
    AlertCase(
        alert="ModelRestartsOften",
        says="three restarts in an hour; one is nothing to see",
        series={
            served("athanor_model_worker_restarts"): "0x10 1x5 2x5 4x80",
            'athanor_model_worker_restarts{namespace="team", workload="two", model="digits"}': "0x10 1x90",
        },
        fires={"25m": [_BY_MODEL], "60m": [_BY_MODEL]},
        quiet=["15m", "95m"],
    ),
    AlertCase(
        alert="ServiceNotWoken",
        says="a request waited in vain; those that were held and answered count for nothing",
        series={
            'athanor_activator_requests_total{namespace="team", workload="answers", outcome="timeout"}': "0x10 1x60",
            'athanor_activator_requests_total{namespace="team", workload="two", outcome="held"}': "0x10 5x60",
        },
        fires={"12m": [_SERVICE]},
        quiet=["9m", "40m"],
    ),
    AlertCase(
        alert="ShadowAnswersDiffer",
        says="one in ten differs; one in fifty, too few requests, and those that were not sent are nothing to see",
        series={
            **_shadow("answers", equal="0+9x140", different="0+1x60 60x80"),
            **_shadow("two", equal="0+49x60", different="0+1x60"),
            **_shadow("three", equal="0x60", different="0x10 1x50"),
            **_shadow("four", equal="0+10x60", dropped="0+10x60"),
        },
        fires={"50m": [_SERVICE]},
        quiet=["1m", "130m"],
    ),
    AlertCase(
        alert="ShadowFails",
        says="one in ten has no answer to compare; different ones are another matter",
        series={
            **_shadow("answers", equal="0+9x140", failed="0+1x60 60x80"),
            **_shadow("two", equal="0+9x60", different="0+1x60"),
        },
        fires={"50m": [_SERVICE]},
        quiet=["1m", "130m"],
    ),
    RecordingCase(
        record="service:requests:rate5m",
        says="successes and faults of the service",
        series=requests("0+60x60", "0+30x60"),
        at="30m",
        gives={'{namespace="team", workload="answers"}': 1.5},
    ),
    RecordingCase(
        record="service:requests:rate5m",
        says="of a server that counts no failures",
        series={served("nv_inference_request_success"): "0+60x60"},
        at="30m",
        gives={'{namespace="team", workload="answers"}': 1},
    ),
    *(
        RecordingCase(
            record=f"service:errors:ratio_rate{window}",
            says="faults of all requests",
            series=requests("0+75x60", "0+25x60"),
            at="30m",
            gives={'{namespace="team", workload="answers"}': 0.25},
        )
        for window in ("5m", "30m", "1h", "6h", "3d")
    ),
    RecordingCase(
        record="service:slow:ratio_rate5m",
        says="longer than half a second",
        series=latencies("0+45x60", "0+60x60"),
        at="30m",
        gives={'{namespace="team", workload="answers"}': 0.25},
    ),
    RecordingCase(
        record="service:latency_seconds:p99",
        says="between the bounds of its bucket",
        series=latencies("0+50x60", "0+100x60"),
        at="30m",
        gives={'{namespace="team", workload="answers"}': 0.99},
    ),
    RecordingCase(
        record="service:batch_size:mean",
        says="rows per call",
        series={served("nv_inference_count"): "0+120x60", served("nv_inference_exec_count"): "0+30x60"},
        at="30m",
        gives={'{namespace="team", workload="answers"}': 4},
    ),
    RecordingCase(
        record="service:queue_seconds:mean",
        says="per request, in seconds",
        series={
            served("nv_inference_queue_duration_us"): "0+30000000x60",
            served("nv_inference_request_success"): "0+60x60",
        },
        at="30m",
        gives={'{namespace="team", workload="answers"}': 0.5},
    ),
)
