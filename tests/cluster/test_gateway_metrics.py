"""What Prometheus stores of a real gateway: requests that passed, by service, and those that it refused."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from infra.gateway import PROXY
from infra.monitoring.kept_metrics import KEPT_METRICS
from tests.fixtures.gateway import DOMAIN, Gateway
from tests.fixtures.monitoring import Monitoring
from tests.waiting import KUBECTL_TIMEOUT, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.clone import Clone
    from tests.fixtures.team import Team

TOKEN = "token-of-bob"
SERVICE, SECRET = "counted", "counted-clients"
HOST, PATH = f"{SERVICE}.{DOMAIN}", "/v2/health/ready"
DECLARED = f"""
from athanor import Expose, RateLimit, Resources, TokenAuth, TorchScriptService, TorchScriptServiceArgs

TorchScriptService("{SERVICE}", platform, TorchScriptServiceArgs(
    model="digits", resources=Resources(cpu="100m", memory="1Gi"),
    expose=Expose(auth=TokenAuth(secret="{SECRET}"), rate_limit=RateLimit(requests=1000)),
))
"""
OF_OTHER_SERVICES = {"envoy_http_jwt_authn_denied"}
"""Metrics that exist as soon as a service admits signed tokens."""


@pytest.fixture(scope="module")
def counted(served: Clone, team: Team, gateway: Gateway) -> Iterator[Monitoring]:
    """Prometheus, and a service behind the gateway that has answered once and refused once."""
    served.kubectl("create", "secret", "generic", SECRET, "-n", "athanor", f"--from-literal=bob={TOKEN}")
    team.declare(DECLARED)
    team.up()
    served.kubectl("rollout", "status", f"deployment/{SERVICE}", "-n", "athanor", KUBECTL_TIMEOUT)
    gateway.wait_for(HOST, PATH, TOKEN)
    assert gateway.ask(HOST, PATH)[0] == HTTPStatus.UNAUTHORIZED
    yield Monitoring(served)
    team.declare("")
    team.up()
    served.kubectl("delete", "secret", SECRET, "-n", "athanor")


def test_requests_that_pass_and_that_are_refused_are_counted(counted: Monitoring) -> None:
    passed = f'envoy_cluster_upstream_rq{{namespace="athanor", workload="{SERVICE}", envoy_response_code="200"}} > 0'
    series = wait_until(lambda: counted.query(passed), "the answer to be counted for the service")
    for each in series:
        labels = each["metric"]
        assert labels["job"] == PROXY
        assert labels["envoy_cluster_name"].startswith(f"httproute/athanor/{SERVICE}/rule/")
        assert not labels.keys() & {"pod", "container"}
    for refused in (
        "envoy_http_api_key_auth_unauthorized > 0",
        'envoy_http_downstream_rq_xx{envoy_response_code_class="4"} > 0',
    ):
        series = wait_until(lambda query=refused: counted.query(query), f"{refused}: the refusal to be counted")
        assert all(not each["metric"].keys() & {"namespace", "workload", "pod"} for each in series)


def test_what_is_kept_of_the_proxies_exists_and_nothing_else_is_stored(counted: Monitoring) -> None:
    def stored() -> set[str]:
        return {name for name in counted.names(PROXY) if name.startswith("envoy_")}

    expected = set(KEPT_METRICS[PROXY]) - OF_OTHER_SERVICES
    wait_until(lambda: expected <= stored(), lambda: f"{sorted(expected - stored())} to be stored")
    assert stored() <= {*expected, *OF_OTHER_SERVICES}
