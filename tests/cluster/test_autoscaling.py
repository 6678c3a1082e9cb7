"""A service that follows its load on the cluster of `make up`: out, in, and no failed request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from infra.monitoring import INSTANCE, NAMESPACE
from infra.monitoring.metrics_adapter import CUSTOM_METRICS_API, RESOURCE_METRICS_API
from tests.fixtures.load import Load
from tests.fixtures.local_cluster import quiet_progress
from tests.waiting import KUBECTL_TIMEOUT, wait_until
from tools.images import ensure_platform_images
from tools.images.platform_images import ADAPTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.clone import Clone
    from tests.fixtures.team import Team

SERVICE = "scaled-digits"
DECLARED = f"""
from athanor import Autoscaling, CpuUtilisation, LatencyP99, QueueDepth, Resources
from athanor import TorchScriptService, TorchScriptServiceArgs

targets = [QueueDepth(requests=2), LatencyP99(milliseconds=5000), CpuUtilisation(percent=100)]
TorchScriptService("{SERVICE}", platform, TorchScriptServiceArgs(
    model="digits",
    resources=Resources(cpu="500m", memory="1Gi"),
    autoscaling=Autoscaling(maximum=2, targets=targets, scale_down_seconds=0),
))
"""
CLIENTS = 24


@pytest.fixture(scope="module")
def adapter(served: Clone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    """The environment with the metrics adapter, by the setting that a user sets; off again at the end."""
    folder: Path = tmp_path_factory.mktemp("images")
    ensure_platform_images(served.cluster.containerd_socket, [ADAPTER], quiet_progress(folder))
    served.configure_local(**{"monitoring.autoscaling.enabled": "true"})
    served.up()
    yield served
    served.pulumi("config", "rm", "--path", "athanor:monitoring.autoscaling")
    served.up()


@pytest.fixture(scope="module")
def scaled(adapter: Clone, team: Team) -> str:
    """The address of another team's service, whose one pod is ready; it goes with the team, before the adapter."""
    team.declare(DECLARED)
    team.up()
    adapter.kubectl("rollout", "status", f"deployment/{SERVICE}", "-n", "athanor", KUBECTL_TIMEOUT)
    return f"{adapter.object('services', SERVICE)['spec']['clusterIP']}:8000"


def autoscaler(served: Clone) -> dict[str, Any]:
    return served.get(f"apis/autoscaling/v2/namespaces/athanor/horizontalpodautoscalers/{SERVICE}")


def ready_pods(served: Clone) -> int:
    return served.object("deployments", SERVICE).get("status", {}).get("readyReplicas", 0)


def pods(served: Clone) -> int:
    return served.object("deployments", SERVICE).get("status", {}).get("replicas", 0)


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize("name", [CUSTOM_METRICS_API, RESOURCE_METRICS_API])
def test_the_api_server_checks_whom_it_asks_for_metrics(served: Clone, name: str) -> None:
    def status() -> dict[str, Any]:
        return served.get(f"apis/apiregistration.k8s.io/v1/apiservices/{name}")

    wait_until(
        lambda: status()["status"]["conditions"][0]["status"] == "True",
        lambda: f"{name} to be available: {status()['status']}",
    )
    spec = status()["spec"]
    assert spec["caBundle"]
    assert not spec.get("insecureSkipTLSVerify")


@pytest.mark.usefixtures("adapter")
def test_the_use_of_pods_and_nodes_is_there_for_everyone_who_may_see_them(served: Clone) -> None:
    """From cAdvisor and the node exporter, as `kubectl top` shows it."""

    def used(what: str) -> dict[str, Any]:
        return {each["metadata"]["name"]: each for each in served.get(f"apis/metrics.k8s.io/v1beta1/{what}")["items"]}

    wait_until(lambda: f"prometheus-{INSTANCE}-0" in used(f"namespaces/{NAMESPACE}/pods"), "the use of Prometheus")
    assert int(used("nodes")[served.cluster.node_name]["usage"]["memory"].removesuffix("Ki")) > 1024


def test_it_follows_the_load_and_every_request_is_answered(served: Clone, scaled: str) -> None:
    with Load(scaled, "digits") as load:
        load.clients(CLIENTS)
        wait_until(
            lambda: ready_pods(served) == 2,
            lambda: f"a second pod: {autoscaler(served).get('status')}, {len(load.failures)} failures",
            moves=lambda: pods(served),
        )
        # The queue alone may have led to the second pod. The CPU of a pod is known after a minute.
        wait_until(
            lambda: {each["type"] for each in autoscaler(served)["status"]["currentMetrics"]} >= {"Pods", "Object"},
            lambda: f"the queue and the latency to be read: {autoscaler(served)['status']}",
        )
        load.clients(1)
        load.pause_seconds = 0.05
        wait_until(
            lambda: pods(served) == 1,
            lambda: f"one pod again: {autoscaler(served)['status']}",
            moves=lambda: pods(served),
        )
    assert load.failures == []
    assert load.answered > CLIENTS
