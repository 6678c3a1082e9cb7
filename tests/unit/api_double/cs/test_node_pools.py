from __future__ import annotations

from typing import Any

import pytest

from tests.api_double.cs import machines
from tests.tables import each_row
from tests.unit.api_double.cs.service import ZONES, Service, pool_body


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def cluster_id(service: Service) -> str:
    return service.cluster()


def test_a_pool_scales_until_it_is_active(service: Service, cluster_id: str) -> None:
    answer = service.call("POST", f"/clusters/{cluster_id}/nodepools", pool_body("gpu"))
    path = f"/clusters/{cluster_id}/nodepools/{answer['nodepool_id']}"
    assert service.call("GET", path)["status"]["state"] == "scaling"
    service.finish(answer)
    pool = service.call("GET", path)
    assert pool["status"]["state"] == "active"
    assert pool["status"]["total_nodes"] == 2
    assert pool["nodepool_info"]["name"] == "gpu"
    assert service.call("GET", f"/clusters/{cluster_id}")["size"] == 2


def test_nodes_spread_over_the_zones_and_share_no_address(service: Service, cluster_id: str) -> None:
    path = service.pool(cluster_id, scaling_group={"desired_size": 4})
    other = service.pool(cluster_id, "other", scaling_group={"desired_size": 2})
    nodes = service.nodes(path)
    assert [node["zone"] for node in nodes] == [*ZONES, *ZONES]
    addresses = [node["address"] for node in [*nodes, *service.nodes(other)]]
    assert addresses == ["10.64.0.10", "10.64.1.10", "10.64.0.11", "10.64.1.11", "10.64.0.12", "10.64.1.12"]
    assert nodes[0]["name"] == "cn-hangzhou.10.64.0.10"


def test_the_first_zone_is_filled_first_by_priority(service: Service, cluster_id: str) -> None:
    path = service.pool(cluster_id, scaling_group={"multi_az_policy": "PRIORITY"})
    assert {node["zone"] for node in service.nodes(path)} == {ZONES[0]}


@each_row(
    ("changed", "code"),
    [
        ({"nodepool_info": {"name": ""}}, "InvalidParameter.Name"),
        ({"nodepool_info": {"name": "taken"}}, "InvalidParameter.Name"),
        ({"scaling_group": {"vswitch_ids": []}}, "InvalidParameter.VswitchIds"),
        ({"scaling_group": {"vswitch_ids": ["vsw-9"]}}, "InvalidVSwitchId.NotFound"),
        ({"scaling_group": {"vswitch_ids": ["vsw-elsewhere"]}}, "InvalidParameter.VswitchIds"),
        ({"scaling_group": {"security_group_ids": ["sg-9"]}}, "InvalidSecurityGroupId.NotFound"),
        ({"scaling_group": {"deploymentset_id": "ds-9"}}, "InvalidDeploymentSetId.NotFound"),
        ({"scaling_group": {"instance_types": []}}, "InvalidParameter.InstanceTypes"),
        ({"scaling_group": {"instance_types": ["ecs.none"]}}, "InvalidInstanceType.ValueNotSupported"),
        ({"scaling_group": {"system_disk_category": ""}}, "InvalidParameter.SystemDiskCategory"),
        ({"scaling_group": {"multi_az_policy": "RANDOM"}}, "InvalidParameter.MultiAzPolicy"),
        ({"scaling_group": {"spot_strategy": "Cheap"}}, "InvalidParameter.SpotStrategy"),
        ({"scaling_group": {"spot_strategy": "SpotWithPriceLimit"}}, "InvalidParameter.SpotPriceLimit"),
        ({"scaling_group": {"desired_size": -1}}, "InvalidParameter.DesiredSize"),
        ({"auto_scaling": {"enable": True, "min_instances": 3, "max_instances": 2}}, "InvalidParameter.AutoScaling"),
        ({"auto_scaling": {"enable": True, "min_instances": 3}}, "InvalidParameter.AutoScaling"),
        ({"auto_scaling": {"enable": True, "min_instances": 3, "max_instances": 9}}, "InvalidParameter.DesiredSize"),
        (
            {"auto_scaling": {"enable": True, "min_instances": 0, "max_instances": 9, "type": "tpu"}},
            "InvalidParameter.AutoScaling.Type",
        ),
        ({"kubernetes_config": {"taints": [{"key": "a", "effect": "Never"}]}}, "InvalidParameter.Taints.Effect"),
        (
            {"kubernetes_config": {"labels": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]}},
            "InvalidParameter.Labels",
        ),
        (
            {"kubernetes_config": {"labels": [{"key": "ack.node.gpu.schedule", "value": "all"}]}},
            "InvalidParameter.ack.node.gpu.schedule",
        ),
        ({"scaling_group": {"image_type": "AliyunLinux3"}}, "InvalidParameter.ImageType"),
        ({"scaling_group": {"instance_metadata_options": {"http_tokens": "no"}}}, "InvalidParameter.HttpTokens"),
        (
            {
                "auto_scaling": {"enable": True, "min_instances": 0, "max_instances": 9},
                "scaling_group": {"tags": [{"key": "a", "value": "b"}]},
                "kubernetes_config": {
                    "labels": [{"key": f"l{number}", "value": ""} for number in range(10)],
                    "taints": [{"key": "a", "effect": "NoSchedule"}],
                },
            },
            "InvalidParameter.Tags",
        ),
        ({"nodepool_info": {"type": "lingjun"}}, "InvalidParameter.EfloNodeGroup"),
        (
            {
                "nodepool_info": {"type": "lingjun"},
                "eflo_node_group": {"cluster_id": "i1", "group_id": "i2"},
                "auto_scaling": {"enable": True, "min_instances": 0, "max_instances": 2},
            },
            "InvalidParameter.AutoScaling",
        ),
    ],
)
def test_an_impossible_pool_is_refused_and_leaves_nothing(changed: dict[str, Any], code: str) -> None:
    service = Service()
    cluster_id = service.cluster()
    service.pool(cluster_id, "taken")
    before = service.account.inventory()
    assert service.refused("POST", f"/clusters/{cluster_id}/nodepools", pool_body("gpu", **changed)) == code
    assert service.account.inventory() == before


def test_a_pool_is_changed_field_by_field(service: Service, cluster_id: str) -> None:
    path = service.pool(cluster_id, scaling_group={"login_password": "hidden"})
    service.finish(service.call("PUT", path, {"scaling_group": {"desired_size": 5}}))
    pool = service.call("GET", path)
    assert pool["scaling_group"]["desired_size"] == 5
    assert pool["scaling_group"]["instance_types"] == ["ecs.gn7i-c16g1.4xlarge"]
    assert "login_password" not in pool["scaling_group"]
    assert len(service.nodes(path)) == 5


def test_the_latest_nodes_go_first(service: Service, cluster_id: str) -> None:
    path = service.pool(cluster_id, scaling_group={"desired_size": 3})
    oldest = service.nodes(path)[0]["name"]
    answer = service.call("PUT", path, {"scaling_group": {"desired_size": 1}})
    assert service.call("GET", path)["status"]["state"] == "removing"
    service.finish(answer)
    assert [node["name"] for node in service.nodes(path)] == [oldest]


def test_an_autoscaled_pool_stays_within_its_limits(service: Service, cluster_id: str) -> None:
    scaling = {"enable": True, "min_instances": 1, "max_instances": 4, "type": "gpu"}
    path = service.pool(cluster_id, scaling_group={"desired_size": None}, auto_scaling=scaling)
    assert len(service.nodes(path)) == 1
    for limits, size in (({"min_instances": 3}, 3), ({"min_instances": 0}, 3), ({"max_instances": 2}, 2)):
        service.finish(service.call("PUT", path, {"auto_scaling": limits}))
        assert len(service.nodes(path)) == size
        assert service.call("GET", path)["scaling_group"]["desired_size"] == size


def test_nodes_keep_labels_and_taints_by_default(service: Service, cluster_id: str) -> None:
    path = service.pool(cluster_id, kubernetes_config={"labels": [{"key": "a", "value": "1"}]})
    changed = {"labels": [{"key": "a", "value": "2"}], "taints": [{"key": "t", "effect": "NoSchedule"}]}
    service.finish(service.call("PUT", path, {"kubernetes_config": changed}))
    assert service.nodes(path)[0]["labels"] == {"a": "1"}
    service.finish(service.call("PUT", path, {"kubernetes_config": changed, "update_nodes": True}))
    assert service.nodes(path)[0]["labels"] == {"a": "2"}
    assert service.nodes(path)[0]["taints"] == [{"key": "t", "value": "", "effect": "NoSchedule"}]


def test_a_kubelet_configuration_reaches_the_nodes(service: Service, cluster_id: str) -> None:
    path = service.pool(cluster_id)
    service.finish(service.call("PUT", f"{path}/node_config", {"kubelet_config": {"maxPods": 40}}))
    assert service.call("GET", path)["node_config"]["kubelet_configuration"] == {"maxPods": 40}
    assert service.nodes(path)[0]["max_pods"] == 40


def test_a_pool_is_upgraded_to_its_clusters_version_only(service: Service, cluster_id: str) -> None:
    path = service.pool(cluster_id)
    newer = {"kubernetes_version": "1.35.7-aliyun.1"}
    assert service.refused("POST", f"{path}/upgrade", newer) == "InvalidParameter.KubernetesVersion"
    upgrade = {"next_version": "1.35.7-aliyun.1", "master_only": True}
    service.finish(service.call("POST", f"/api/v2/clusters/{cluster_id}/upgrade", upgrade))
    service.finish(service.call("POST", f"{path}/upgrade", newer))
    assert next(iter(service.account.all("node_pool").values()))["_kubelet_version"] == "1.35.7-aliyun.1"


def test_the_next_type_and_zone_stand_in_for_what_is_sold_out(service: Service, cluster_id: str) -> None:
    first, second = "ecs.gn7i-c16g1.4xlarge", "ecs.gn7i-c32g1.8xlarge"
    machines.sell_out(service.account, f"{first}@{ZONES[0]}", f"{second}@{ZONES[0]}")
    path = service.pool(cluster_id, scaling_group={"instance_types": [first, second]})
    assert [(node["instance_type"], node["zone"]) for node in service.nodes(path)] == [(first, ZONES[1])] * 2
    machines.sell_out(service.account, first)
    other = service.pool(cluster_id, "other", scaling_group={"instance_types": [first, second]})
    assert {node["instance_type"] for node in service.nodes(other)} == {second}


def test_a_pool_whose_machines_are_sold_out_fails_and_fills_up_later(service: Service, cluster_id: str) -> None:
    machines.sell_out(service.account, "ecs.gn7i-c16g1.4xlarge")
    answer = service.call("POST", f"/clusters/{cluster_id}/nodepools", pool_body("gpu"))
    task = service.finish(answer)
    assert task["state"] == "failed"
    assert task["error"]["code"] == "OperationDenied.NoStock"
    path = f"/clusters/{cluster_id}/nodepools/{answer['nodepool_id']}"
    assert service.call("GET", path)["status"]["total_nodes"] == 0
    machines.restock(service.account)
    assert service.call("GET", path)["status"]["total_nodes"] == 2


def test_spot_nodes_come_after_the_on_demand_base(service: Service, cluster_id: str) -> None:
    spot = {"spot_strategy": "SpotAsPriceGo", "on_demand_base_capacity": 1, "desired_size": 5}
    path = service.pool(cluster_id, scaling_group={**spot, "on_demand_percentage_above_base_capacity": 50})
    assert [node["spot"] for node in service.nodes(path)] == [False, True, False, True, False]


def test_custom_data_needs_an_application(service: Service, cluster_id: str) -> None:
    """ACK, "Create a cluster": pre-defined custom data is applied for in the Quota Center."""
    custom = pool_body("rdma", kubernetes_config={"pre_user_data": "dHJ1ZQ=="})
    service.account.applied_for.clear()
    assert service.refused("POST", f"/clusters/{cluster_id}/nodepools", custom) == "InvalidParameter.PreUserData"
    service.account.applied_for.add("pre_user_data")
    assert service.call("POST", f"/clusters/{cluster_id}/nodepools", custom)["nodepool_id"]


def test_a_pool_stays_spot_or_on_demand(service: Service, cluster_id: str) -> None:
    """ACK, "Create and manage node pools", billing method."""
    path, spot = service.pool(cluster_id), {"scaling_group": {"spot_strategy": "SpotAsPriceGo"}}
    assert service.refused("PUT", path, spot) == "InvalidParameter.SpotStrategy"
    other = service.pool(cluster_id, "other", **spot)
    limited = {
        "spot_strategy": "SpotWithPriceLimit",
        "spot_price_limit": [{"instance_type": "ecs.gn7i-c16g1.4xlarge", "price_limit": "9"}],
    }
    service.finish(service.call("PUT", other, {"scaling_group": limited}))
    on_demand = {"scaling_group": {"spot_strategy": "NoSpot"}}
    assert service.refused("PUT", other, on_demand) == "InvalidParameter.SpotStrategy"


def test_a_pool_in_use_goes_by_force_only(service: Service, cluster_id: str) -> None:
    path = service.pool(cluster_id)
    assert service.refused("DELETE", path) == "InvalidParameter.Force"
    answer = service.call("DELETE", path, force="true")
    assert service.call("GET", path)["status"]["state"] == "deleting"
    service.finish(answer)
    assert service.refused("GET", path) == "ErrorNodePoolNotFound"
    assert service.account.all("node_pool") == {}
    # a second pool of the name can be had at once
    service.pool(cluster_id)


def test_what_a_pool_uses_is_in_use(service: Service, cluster_id: str) -> None:
    service.account.add("deployment_set", "ds-1", {})
    path = service.pool(cluster_id, scaling_group={"deploymentset_id": "ds-1", "vswitch_ids": ["vsw-node-1"]})
    pool = ("node_pool", path.rpartition("/")[2])
    assert service.account.users("deployment_set", "ds-1") == [pool]
    assert pool in service.account.users("vswitch", "vsw-node-1")
    assert pool not in service.account.users("vswitch", "vsw-node-0")


def test_nodes_can_be_listed_by_pool(service: Service, cluster_id: str) -> None:
    path = service.pool(cluster_id)
    service.pool(cluster_id, "other", scaling_group={"desired_size": 3})
    assert service.call("GET", f"/clusters/{cluster_id}/nodes")["page"]["total_count"] == 5
    listed = service.call("GET", f"/clusters/{cluster_id}/nodes", nodepool_id=path.rpartition("/")[2])
    assert [node["ip_address"] for node in listed["nodes"]] == [["10.64.0.10"], ["10.64.1.10"]]


def test_lingjun_machines_are_not_ecs_instances(service: Service, cluster_id: str) -> None:
    path = service.pool(
        cluster_id,
        nodepool_info={"name": "rdma", "type": "lingjun"},
        eflo_node_group={"cluster_id": "i1", "group_id": "i2"},
        scaling_group={"instance_types": None},
    )
    assert {node["instance_type"] for node in service.nodes(path)} == {"lingjun"}


LOW_LATENCY = {"deploymentset_id": "ds-close", "vswitch_ids": ["vsw-node-1"]}
H20 = ["ecs.gn8v-8x.48xlarge"]


@pytest.mark.parametrize(
    "group",
    [
        {**LOW_LATENCY},
        {**LOW_LATENCY, "instance_types": [*H20, "ecs.gn8is.4xlarge"]},
        {**LOW_LATENCY, "instance_types": H20, "spot_strategy": "SpotAsPriceGo"},
        {**LOW_LATENCY, "instance_types": H20, "vswitch_ids": ["vsw-node-0", "vsw-node-1"]},
    ],
    ids=["A10", "L20 after H20", "spot", "two zones"],
)
def test_a_low_latency_set_takes_its_families_in_one_zone_and_no_spot(
    service: Service, cluster_id: str, group: dict[str, Any]
) -> None:
    service.account.add("deployment_set", "ds-close", {"DeploymentStrategy": "LowLatency"})
    path = f"/clusters/{cluster_id}/nodepools"
    assert service.refused("POST", path, pool_body("gpu", scaling_group=group)) == "InvalidParameter.DeploymentsetId"
    service.pool(cluster_id, scaling_group={**LOW_LATENCY, "instance_types": H20})


def test_instant_scaling_buys_a_spot_pool_on_demand_where_it_may(service: Service, cluster_id: str) -> None:
    """ACK, "FAQ about node instant scaling": it cannot see what spot stock there is."""
    spot = {"spot_strategy": "SpotAsPriceGo", "desired_size": 2, "compensate_with_on_demand": True}
    scaling = {"enable": True, "min_instances": 0, "max_instances": 4}

    def bought(name: str, **group: Any) -> list[bool]:
        path = service.pool(cluster_id, name, scaling_group={**spot, **group}, auto_scaling=scaling)
        return [node["spot"] for node in service.nodes(path)]

    assert bought("by-the-cluster-autoscaler") == [True, True]
    service.call("POST", f"/cluster/{cluster_id}/autoscale/config", {"scaler_type": "goatscaler"})
    assert bought("by-instant-scaling") == [False, False]
    assert bought("never-on-demand", compensate_with_on_demand=False) == [True, True]
