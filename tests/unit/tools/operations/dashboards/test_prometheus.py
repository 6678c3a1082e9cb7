"""Prometheus's HTTP API: answers as Prometheus 3.14.0 gave them, from a server of the test's own on loopback."""

import math
from urllib.parse import parse_qs

import pytest

from tests.ports import Handler, answering
from tests.tables import each_row
from tools.operations.dashboards.errors import PrometheusError, QueryError
from tools.operations.dashboards.prometheus import Prometheus, Window

VECTOR = (
    '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"node:gpus_allocatable:sum",'
    '"node":"gpu-node-0"},"value":[1795284689.123,"8"]},{"metric":{"__name__":"node:gpus_allocatable:sum",'
    '"node":"gpu-node-1"},"value":[1795284689.123,"NaN"]}]}}'
)
MATRIX = (
    '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"instance":"127.0.0.1:9090",'
    '"job":"prometheus"},"values":[[1795284679,"+Inf"],[1795284684,"1.5"],[1795284689,"-Inf"]]}]}}'
)
SCALAR = '{"status":"success","data":{"resultType":"scalar","result":[1795284689.209,"42"]}}'
NOTHING = '{"status":"success","data":{"resultType":"vector","result":[]}}'
REFUSED = (
    '{"status":"error","errorType":"bad_data","error":"invalid parameter \\"query\\": 1:9: parse error: unclosed left'
    ' parenthesis"}'
)
NOT_PROMETHEUS = [(404, "404 page not found"), (502, "[1]"), (200, "<html>"), (200, "{}")]
WINDOW = Window(start=100, end=160, step=15)


class _Handler(Handler):
    def answer(self) -> None:
        self.server.asked.append((self.path, parse_qs(self.body().decode())))
        self.respond(self.server.status, self.server.body.encode())


@pytest.fixture
def server():
    with answering(_Handler) as server:
        server.status, server.body, server.asked = 200, NOTHING, []
        yield server


@pytest.fixture
def prometheus(server) -> Prometheus:
    return Prometheus(f"127.0.0.1:{server.server_port}")


def test_values_at_one_time(server, prometheus):
    server.body = VECTOR
    first, second = prometheus.at("node:gpus_allocatable:sum", 1795284689.123)
    assert first.labels == {"__name__": "node:gpus_allocatable:sum", "node": "gpu-node-0"}
    assert first.points == [(1795284689.123, 8.0)]
    assert math.isnan(second.points[0][1])
    arguments = {"query": ["node:gpus_allocatable:sum"], "time": ["1795284689.123"]}
    assert server.asked == [("/api/v1/query", arguments)]


def test_values_over_time(server, prometheus):
    server.body = MATRIX
    (series,) = prometheus.over("1/(up-1)", WINDOW)
    assert series.points == [(1795284679, math.inf), (1795284684, 1.5), (1795284689, -math.inf)]
    ((path, arguments),) = server.asked
    assert path == "/api/v1/query_range"
    assert arguments == {"query": ["1/(up-1)"], "start": ["100.000"], "end": ["160.000"], "step": ["15"]}


def test_a_scalar_is_a_series_without_labels(server, prometheus):
    server.body = SCALAR
    (series,) = prometheus.at("42", 0)
    assert (series.labels, series.points) == ({}, [(1795284689.209, 42.0)])


def test_nothing_is_not_a_series(prometheus):
    assert prometheus.at("nothing_here", 0) == []


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        *((status, REFUSED, QueryError, "unclosed left parenthesis") for status in (400, 422, 503)),
        *((status, body, PrometheusError, "Prometheus") for status, body in NOT_PROMETHEUS),
    ],
)
def test_a_refused_query_and_what_is_not_prometheus_say_so(*, server, prometheus, status, body, error, words):
    server.status, server.body = status, body
    with pytest.raises(error, match=words):
        prometheus.at("up", 0)


def test_nobody_there_is_said_with_the_fix(server):
    address = f"127.0.0.1:{server.server_port}"
    server.server_close()
    with pytest.raises(PrometheusError, match=rf"http://{address}: .*PROMETHEUS="):
        Prometheus(address).at("up", 0)


@each_row("address", ["file:///etc/passwd", "http://", "ftp://host"])
def test_what_is_not_an_address_is_refused(address):
    with pytest.raises(ValueError, match=r"PROMETHEUS = .*Fix: use host:port"):
        Prometheus(address)


def test_an_address_may_have_a_path():
    assert Prometheus("https://metrics.example/prometheus/").url == "https://metrics.example/prometheus"
