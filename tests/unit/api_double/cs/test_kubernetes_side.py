from __future__ import annotations

import json

from tests.api_double.cs.kubernetes_side import KubernetesSide
from tests.unit.api_double.cs.service import KUBECONFIG, Service, cluster_body


def test_the_api_works_while_its_cluster_cannot_be_reached() -> None:
    service = Service()
    side = service.account.kubernetes = KubernetesSide(service.account, KUBECONFIG)
    side.start()
    try:
        answer = service.call("POST", "/clusters", cluster_body())
        side.await_idle()
        service.finish(answer)
        cluster = service.call("GET", f"/clusters/{answer['cluster_id']}")
        assert cluster["name"] == "athanor-dev"
        assert json.loads(cluster["master_url"])["intranet_api_server_endpoint"] == "https://127.0.0.1:1"
        credential = service.call("GET", f"/k8s/{answer['cluster_id']}/user_config")
        assert credential["config"] == KUBECONFIG
        assert side.failures
    finally:
        side.close()


def test_a_task_is_not_over_before_the_cluster_has_followed() -> None:
    service = Service()
    # not started: it never gets to its work
    service.account.kubernetes = KubernetesSide(service.account, KUBECONFIG)
    answer = service.call("POST", "/clusters", cluster_body())
    states = {service.call("GET", f"/tasks/{answer['task_id']}")["state"] for _ in range(9)}
    assert states == {"running"}
