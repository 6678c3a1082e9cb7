from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api_double.cs.addon_catalogue import ADDONS
from tests.api_double.cs.addons import installed
from tests.unit.api_double.cs.service import TERWAY, Service

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def path(service: Service) -> str:
    cluster_id = service.cluster()
    service.pool(cluster_id, "system")
    return f"/clusters/{cluster_id}"


def _install(service: Service, path: str, name: str, **more: str) -> None:
    service.finish(service.call("POST", f"{path}/components/install", [{"name": name, **more}]))


def test_a_new_cluster_has_what_it_asked_for_and_what_every_one_has(service: Service, path: str) -> None:
    names = {one["name"] for one in service.call("GET", f"{path}/addon_instances")["addons"]}
    assert names == {"terway-eniip"} | {known.name for known in ADDONS.values() if known.by_default}


def test_a_disabled_addon_is_left_out(service: Service) -> None:
    cluster_id = service.cluster(addons=[TERWAY, {"name": "nginx-ingress-controller", "disabled": True}])
    assert service.refused("GET", f"/clusters/{cluster_id}/addon_instances/nginx-ingress-controller") == "AddonNotFound"


def test_an_addon_is_installed_by_a_task(service: Service, path: str) -> None:
    answer = service.call(
        "POST",
        f"{path}/components/install",
        [{"name": "ack-node-problem-detector", "version": "v0.7.1", "config": '{"a": 1}'}],
    )
    instance = f"{path}/addon_instances/ack-node-problem-detector"
    assert service.call("GET", instance)["state"] == "installing"
    service.finish(answer)
    addon = service.call("GET", instance)
    assert (addon["state"], addon["version"], json.loads(addon["config"])) == ("active", "v0.7.1", {"a": 1})


@pytest.mark.parametrize("pool", [None, {"kubernetes_config": {"taints": [TAINT]}}], ids=["no node", "no node for it"])
def test_an_addon_with_pods_does_not_run_before_there_is_a_node_for_them(
    service: Service, pool: dict[str, Any] | None
) -> None:
    cluster_id = service.cluster()
    if pool:
        service.pool(cluster_id, "gpu", **pool)
    path = f"/clusters/{cluster_id}"
    answer = service.call("POST", f"{path}/components/install", [{"name": "ack-erdma-controller"}])
    for _ in range(5):
        assert service.call("GET", f"/tasks/{answer['task_id']}")["state"] == "running"
        assert service.call("GET", f"{path}/addon_instances/ack-erdma-controller")["state"] == "installing"
    service.pool(cluster_id, "system")
    assert service.finish(answer)["state"] == "success"
    assert service.call("GET", f"{path}/addon_instances/ack-erdma-controller")["state"] == "active"


def test_an_addon_of_the_control_plane_needs_no_node(service: Service) -> None:
    _install(service, f"/clusters/{service.cluster()}", "goatscaler")


@pytest.mark.parametrize("lower", ["v1.12.1.2", "v1.9.3.10-7dfca203-aliyun"])
def test_no_addon_is_downgraded(service: Service, path: str, lower: str) -> None:
    upgrade = f"{path}/components/upgrade"
    service.finish(service.call("POST", upgrade, [{"component_name": "coredns", "next_version": "v1.12.1.3"}]))
    assert (
        service.refused("POST", upgrade, [{"component_name": "coredns", "next_version": lower}])
        == "InvalidAddonVersion"
    )


def test_what_cannot_be_installed_is_refused(service: Service, path: str) -> None:
    install = f"{path}/components/install"
    _install(service, path, "ack-node-problem-detector")
    for item, code in (
        ({"name": "no-such"}, "AddonNotFound"),
        ({"name": "ack-node-problem-detector"}, "AddonAlreadyInstalled"),
        ({"name": "csi-plugin"}, "AddonAlreadyInstalled"),
        ({"name": "terway-controlplane"}, "AddonNotSupported"),
        ({"name": "ack-arena", "version": "latest"}, "AddonNotFound"),
        ({"name": "ack-arena", "config": "[]"}, "InvalidParameter.Config"),
        ({"name": "ack-arena", "config": "{"}, "InvalidParameter.Config"),
    ):
        assert service.refused("POST", install, [item]) == code
    assert service.refused("POST", install, []) == "InvalidParameter.Addons"


def test_erdma_needs_terway(service: Service) -> None:
    cluster_id = service.cluster(addons=[{"name": "flannel"}], container_cidr="172.20.0.0/16")
    install = f"/clusters/{cluster_id}/components/install"
    assert service.refused("POST", install, [{"name": "ack-erdma-controller"}]) == "AddonDependencyNotMet"


def test_an_upgrade_goes_forward_and_merges_the_configuration(service: Service, path: str) -> None:
    _install(service, path, "ack-node-problem-detector", version="v0.7.1", config='{"a": {"b": 1}, "c": 2}')
    item = {"component_name": "ack-node-problem-detector", "next_version": "v0.7.2", "config": '{"a": {"d": 3}}'}
    answer = service.call("POST", f"{path}/components/upgrade", [item])
    assert service.call("GET", f"{path}/addon_instances/ack-node-problem-detector")["state"] == "upgrading"
    service.finish(answer)
    addon = service.call("GET", f"{path}/addon_instances/ack-node-problem-detector")
    assert addon["version"] == "v0.7.2"
    assert json.loads(addon["config"]) == {"a": {"b": 1, "d": 3}, "c": 2}
    back = [{"component_name": "ack-node-problem-detector", "next_version": "v0.7.0"}]
    assert service.refused("POST", f"{path}/components/upgrade", back) == "InvalidAddonVersion"


def test_a_new_configuration_is_reported_until_it_holds(service: Service, path: str) -> None:
    _install(service, path, "ack-node-problem-detector")
    service.call("POST", f"{path}/components/ack-node-problem-detector/config", {"config": '{"a": 1}'})
    states = [
        service.call("GET", f"{path}/components/upgradestatus", componentIds='["ack-node-problem-detector"]')[
            "ack-node-problem-detector"
        ]
        for _ in range(4)
    ]
    assert states[0]["tasks"]["status"] == "Running"
    assert states[-1]["tasks"]["status"] == "Success"
    assert json.loads(service.call("GET", f"{path}/addon_instances/ack-node-problem-detector")["config"]) == {"a": 1}


def test_an_addon_goes_unless_others_need_it(service: Service, path: str) -> None:
    _install(service, path, "ack-node-problem-detector")
    uninstall = f"{path}/components/uninstall"
    for name in ("terway-eniip", "kube-proxy"):
        assert service.refused("POST", uninstall, [{"name": name}]) == "AddonRequired"
    service.finish(service.call("POST", uninstall, [{"name": "ack-node-problem-detector"}]))
    assert service.refused("GET", f"{path}/addon_instances/ack-node-problem-detector") == "AddonNotFound"


def test_the_marketplace_lists_what_can_be_done(service: Service, path: str) -> None:
    cluster_id = path.rpartition("/")[2]
    known = service.call("GET", "/addons/ack-node-problem-detector", cluster_id=cluster_id, version="v0.7.1")
    assert (known["version"], known["supported_actions"][-1]) == ("v0.7.1", "Uninstall")
    assert "Uninstall" not in service.call("GET", "/addons/kube-proxy")["supported_actions"]
    assert {one["name"] for one in service.call("GET", "/addons")["addons"]} == set(ADDONS)


def test_autoscaling_is_an_addon_with_a_configuration(service: Service, path: str) -> None:
    cluster_id = path.rpartition("/")[2]
    scaling = f"/cluster/{cluster_id}/autoscale/config/"
    service.finish(
        service.call("POST", scaling, {"scaler_type": "goatscaler", "scan_interval": "30s", "scale_down_enabled": True})
    )
    addon = service.call("GET", f"{path}/addon_instances/goatscaler")
    assert json.loads(addon["config"]) == {"ScanInterval": "30s", "ScaleDownEnabled": True}
    assert service.refused("POST", scaling, {"scaler_type": "karpenter"}) == "InvalidParameter.ScalerType"
    random = {"scaler_type": "goatscaler", "expander": "random"}
    assert service.refused("POST", scaling, random) == "InvalidParameter.Expander"
    service.finish(service.call("POST", scaling, {"scaler_type": "cluster-autoscaler"}))
    scalers = {"goatscaler", "cluster-autoscaler"} & installed(service.account, cluster_id).keys()
    assert scalers == {"cluster-autoscaler"}
