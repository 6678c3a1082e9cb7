from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api_double.cs.versions import creatable, release, upgrade_targets
from tests.api_double.protocol import ApiError
from tests.tables import each_row
from tests.unit.api_double.cs.service import TERWAY, Service, cluster_body

WINDOW = {
    "enable": True,
    "maintenance_time": "2025-01-01T02:00:00.000+08:00",
    "duration": "3h",
    "weekly_period": "Sunday",
}


@pytest.fixture
def service() -> Service:
    return Service()


def test_a_cluster_is_initial_until_its_task_has_ended(service: Service) -> None:
    answer = service.call("POST", "/clusters", cluster_body())
    path = f"/clusters/{answer['cluster_id']}"

    assert service.call("GET", f"/tasks/{answer['task_id']}")["state"] == "running"
    assert service.account.all("cluster")[answer["cluster_id"]]["state"] == "initial"
    assert service.finish(answer)["state"] == "success"
    assert service.call("GET", path)["state"] == "running"


def test_a_cluster_shows_what_callers_read(service: Service) -> None:
    cluster_id = service.cluster()
    cluster = service.call("GET", f"/clusters/{cluster_id}")

    assert cluster["current_version"] == "1.34.10-aliyun.1"
    assert cluster["vswitch_ids"] == ["vsw-node-0", "vsw-node-1"]
    assert json.loads(cluster["master_url"]) == {"intranet_api_server_endpoint": "https://127.0.0.1:6443"}
    rrsa = json.loads(cluster["meta_data"])["RRSAConfig"]
    assert rrsa["enabled"]
    assert rrsa["issuer"] == f"https://oidc-ack-cn-hangzhou.oss-cn-hangzhou.aliyuncs.com/{cluster_id}"
    assert rrsa["oidc_arn"] == f"acs:ram::{service.account.id}:oidc-provider/ack-rrsa-{cluster_id}"
    assert not any(name.startswith("_") for name in cluster)


def test_a_public_api_server_has_both_addresses(service: Service) -> None:
    cluster_id = service.cluster(endpoint_public_access=True)
    urls = json.loads(service.call("GET", f"/clusters/{cluster_id}")["master_url"])
    assert set(urls) == {"intranet_api_server_endpoint", "api_server_endpoint"}


def test_resources_name_the_load_balancer(service: Service) -> None:
    cluster_id = service.cluster()
    kinds = {
        one["resource_type"]: one["instance_id"] for one in service.call("GET", f"/clusters/{cluster_id}/resources")
    }
    assert kinds["SLB"].startswith("lb-")


@each_row(
    ("changed", "code"),
    [
        ({"name": ""}, "InvalidParameter.Name"),
        ({"name": "x" * 64}, "InvalidParameter.Name"),
        ({"cluster_spec": "ack.huge"}, "InvalidParameter.ClusterSpec"),
        ({"proxy_mode": "userspace"}, "InvalidParameter.ProxyMode"),
        ({"proxy_mode": "nftables"}, "InvalidParameter.ProxyMode"),
        ({"kubernetes_version": "1.20.0-aliyun.1"}, "InvalidKubernetesVersion"),
        ({"kubernetes_version": "1.34.3-aliyun.1"}, "InvalidKubernetesVersion"),
        ({"kubernetes_version": "1.34"}, "InvalidParameter.KubernetesVersion"),
        ({"maintenance_window": {**WINDOW, "maintenance_time": "02:00"}}, "InvalidParameter.MaintenanceTime"),
        (
            {"maintenance_window": {**WINDOW, "maintenance_time": "2025-01-01T02:00:00"}},
            "InvalidParameter.MaintenanceTime",
        ),
        ({"maintenance_window": {**WINDOW, "duration": "25h"}}, "InvalidParameter.Duration"),
        ({"maintenance_window": {**WINDOW, "weekly_period": "Sat"}}, "InvalidParameter.WeeklyPeriod"),
        (
            {"operation_policy": {"cluster_auto_upgrade": {"enabled": True, "channel": "stables"}}},
            "InvalidParameter.Channel",
        ),
        ({"vpcid": "vpc-9"}, "InvalidVpcId.NotFound"),
        ({"vswitch_ids": []}, "InvalidParameter.VswitchIds"),
        ({"vswitch_ids": ["vsw-9"]}, "InvalidVSwitchId.NotFound"),
        ({"vswitch_ids": ["vsw-elsewhere"]}, "InvalidParameter.VswitchIds"),
        ({"pod_vswitch_ids": ["vsw-pod-0"]}, "InvalidParameter.PodVswitchIds"),
        ({"pod_vswitch_ids": None}, "InvalidParameter.VswitchIds"),
        ({"addons": []}, "InvalidParameter.Addons"),
        ({"addons": [TERWAY, {"name": "flannel"}]}, "InvalidParameter.Addons"),
        ({"addons": [{"name": "flannel"}], "container_cidr": ""}, "InvalidParameter.ContainerCidr"),
        ({"addons": [TERWAY, {"name": "no-such"}]}, "AddonNotFound"),
        ({"security_group_id": "sg-9"}, "InvalidSecurityGroupId.NotFound"),
        ({"security_group_id": "sg-2"}, "InvalidParameter.SecurityGroupId"),
        ({"service_cidr": "10.65.0.0/20"}, "InvalidParameter.ServiceCidr"),
        ({"snat_entry": True}, "InvalidParameter.SnatEntry"),
    ],
)
def test_an_impossible_cluster_is_refused_and_leaves_nothing(
    service: Service, changed: dict[str, Any], code: str
) -> None:
    before = service.account.inventory()
    assert service.refused("POST", "/clusters", cluster_body(**changed)) == code
    assert service.account.inventory() == before


def test_a_name_is_taken_once(service: Service) -> None:
    service.cluster()
    assert service.refused("POST", "/clusters", cluster_body()) == "ErrorClusterNameAlreadyExist"


def test_what_a_cluster_uses_is_in_use(service: Service) -> None:
    cluster_id = service.cluster()
    for kind, identifier in (
        ("vpc", "vpc-1"),
        ("vswitch", "vsw-node-1"),
        ("vswitch", "vsw-pod-0"),
        ("security_group", "sg-1"),
    ):
        assert service.account.users(kind, identifier) == [("cluster", cluster_id)]


def test_changes_pass_through_updating(service: Service) -> None:
    cluster_id = service.cluster()
    window = {"enable": True, "maintenance_time": "2026-01-01T18:00:00Z", "duration": "3h", "weekly_period": "Saturday"}
    answer = service.call(
        "PUT", f"/api/v2/clusters/{cluster_id}", {"deletion_protection": True, "maintenance_window": window}
    )
    assert service.call("GET", f"/clusters/{cluster_id}")["state"] == "updating"
    assert service.refused("PUT", f"/api/v2/clusters/{cluster_id}", {}) == "ErrorClusterState"
    service.finish(answer)
    cluster = service.call("GET", f"/clusters/{cluster_id}")
    assert (cluster["state"], cluster["deletion_protection"]) == ("running", True)
    assert cluster["maintenance_window"] == window


def test_rrsa_is_never_disabled(service: Service) -> None:
    cluster_id = service.cluster()
    assert (
        service.refused("PUT", f"/api/v2/clusters/{cluster_id}", {"enable_rrsa": False})
        == "InvalidParameter.EnableRrsa"
    )


def test_tags_are_replaced(service: Service) -> None:
    cluster_id = service.cluster(tags=[{"key": "a", "value": "1"}])
    service.call("POST", f"/clusters/{cluster_id}/tags", [{"key": "b", "value": "2"}])
    tags = service.call("GET", f"/clusters/{cluster_id}")["tags"]
    assert {"key": "b", "value": "2"} in tags
    assert {"key": "a", "value": "1"} not in tags


def test_of_each_minor_one_patch_is_offered_and_an_older_one_is_retired(service: Service) -> None:
    assert creatable(service.account) == ["1.36.2-aliyun.1", "1.35.7-aliyun.1", "1.34.10-aliyun.1"]
    release(service.account, "1.34.11-aliyun.1")
    with pytest.raises(ApiError) as refused:
        service.call("POST", "/clusters", cluster_body())
    assert refused.value.code == "InvalidKubernetesVersion"
    assert refused.value.message == (
        "The specified KubernetesVersion 1.34.10-aliyun.1 is invalid,"
        " allowd values are [1.36.2-aliyun.1 1.35.7-aliyun.1 1.34.11-aliyun.1]"
    )
    release(service.account, "1.37.1-aliyun.1")
    assert creatable(service.account) == ["1.37.1-aliyun.1", "1.36.2-aliyun.1", "1.35.7-aliyun.1"]


def test_a_cluster_of_no_named_version_gets_the_latest(service: Service) -> None:
    cluster_id = service.cluster(kubernetes_version="")
    assert service.call("GET", f"/clusters/{cluster_id}")["current_version"] == "1.36.2-aliyun.1"


def test_nftables_comes_with_1_35(service: Service) -> None:
    cluster_id = service.cluster(kubernetes_version="1.35.7-aliyun.1", proxy_mode="nftables")
    assert service.call("GET", f"/clusters/{cluster_id}")["proxy_mode"] == "nftables"


def test_upgrades_leave_no_minor_version_out(service: Service) -> None:
    def targets(version: str) -> list[str]:
        return upgrade_targets(service.account, version)

    assert targets("1.32.7-aliyun.1") == ["1.33.3-aliyun.1"]
    assert targets("1.34.1-aliyun.1") == ["1.34.10-aliyun.1", "1.35.7-aliyun.1"]
    assert targets("1.36.2-aliyun.1") == []


def test_a_cluster_of_a_retired_patch_goes_on_and_can_be_upgraded(service: Service) -> None:
    cluster_id = service.cluster()
    release(service.account, "1.34.11-aliyun.1")
    path = f"/clusters/{cluster_id}"
    assert service.call("GET", path)["state"] == "running"
    service.pool(cluster_id)
    service.finish(service.call("POST", f"/api/v2{path}/upgrade", {"next_version": "1.34.11-aliyun.1"}))
    assert service.call("GET", path)["current_version"] == "1.34.11-aliyun.1"


def test_the_version_is_new_when_the_upgrade_has_ended(service: Service) -> None:
    cluster_id = service.cluster()
    path = f"/clusters/{cluster_id}"
    answer = service.call("POST", f"/api/v2{path}/upgrade", {"next_version": "1.35.7-aliyun.1"})
    assert service.call("GET", path)["state"] == "upgrading"
    assert service.account.all("cluster")[cluster_id]["current_version"] == "1.34.10-aliyun.1"
    service.finish(answer)
    assert service.call("GET", path)["current_version"] == "1.35.7-aliyun.1"


@each_row("version", ["1.32.7-aliyun.1", "1.34.10-aliyun.1", "1.36.2-aliyun.1", "1.99.0-aliyun.1", ""])
def test_other_upgrades_are_refused(version: str) -> None:
    service = Service()
    cluster_id = service.cluster()
    code = service.refused("POST", f"/api/v2/clusters/{cluster_id}/upgrade", {"next_version": version})
    assert code in {"InvalidUpgradeVersion", "InvalidKubernetesVersion"}


def test_nodes_follow_the_control_plane_unless_it_goes_alone(service: Service) -> None:
    cluster_id = service.cluster()
    service.pool(cluster_id)
    pool = next(iter(service.account.all("node_pool").values()))
    upgrade = f"/api/v2/clusters/{cluster_id}/upgrade"
    service.finish(service.call("POST", upgrade, {"next_version": "1.35.7-aliyun.1", "master_only": True}))
    assert pool["_kubelet_version"] == "1.34.10-aliyun.1"
    service.finish(service.call("POST", upgrade, {"next_version": "1.36.2-aliyun.1"}))
    assert pool["_kubelet_version"] == "1.36.2-aliyun.1"


def test_control_plane_logs_are_as_they_were_set(service: Service) -> None:
    cluster_id = service.cluster(controlplane_log_components=["apiserver", "kcm"], controlplane_log_ttl="7")
    path = f"/clusters/{cluster_id}/controlplanelog"
    log = service.call("GET", path)
    assert (log["components"], log["log_ttl"]) == (["apiserver", "kcm"], "7")
    service.finish(service.call("PUT", path, {"components": ["apiserver"]}))
    log = service.call("GET", path)
    assert (log["components"], log["log_ttl"]) == (["apiserver"], "7")


def test_audit_can_be_switched(service: Service) -> None:
    cluster_id = service.cluster(audit_log_config={"enabled": True})
    assert service.call("GET", f"/clusters/{cluster_id}/audit")["audit_enabled"]
    service.finish(service.call("PUT", f"/clusters/{cluster_id}/audit_log", {"disable": True}))
    assert not service.call("GET", f"/clusters/{cluster_id}/audit")["audit_enabled"]


def test_logs_outlive_their_cluster_by_default(service: Service) -> None:
    for delete_options, left in (
        ([], ["SLS_ControlPlane", "SLS_Data"]),
        ([{"resource_type": "SLS_ControlPlane", "delete_mode": "delete"}], ["SLS_Data"]),
        (
            [{"resource_type": kind, "delete_mode": "delete"} for kind in ("SLS_ControlPlane", "SLS_Data")],
            None,
        ),
    ):
        cluster_id = service.cluster(controlplane_log_components=["kcm"], audit_log_config={"enabled": True})
        _delete(service, cluster_id, delete_options=json.dumps(delete_options))
        project = service.account.find("log_project", f"k8s-log-{cluster_id}")
        assert (project and project["kinds"]) == left


def test_a_protected_cluster_stays(service: Service) -> None:
    cluster_id = service.cluster(deletion_protection=True)
    assert service.refused("DELETE", f"/clusters/{cluster_id}") == "ErrorClusterDeletionProtection"
    service.finish(service.call("PUT", f"/api/v2/clusters/{cluster_id}", {"deletion_protection": False}))
    _delete(service, cluster_id)


def test_an_unknown_delete_option_is_refused(service: Service) -> None:
    cluster_id = service.cluster()
    options = json.dumps([{"resource_type": "ECS", "delete_mode": "delete"}])
    assert (
        service.refused("DELETE", f"/clusters/{cluster_id}", delete_options=options) == "InvalidParameter.DeleteOptions"
    )


def test_a_deleted_cluster_takes_its_parts_along(service: Service) -> None:
    before = service.account.inventory()
    cluster_id = service.cluster()
    service.pool(cluster_id)
    _delete(service, cluster_id)
    assert {kind: ids for kind, ids in service.account.inventory().items() if ids} == before
    assert service.account.users("vswitch", "vsw-node-0") == []


def test_a_cluster_is_seen_deleting_before_it_is_gone(service: Service) -> None:
    cluster_id = service.cluster()
    service.call("DELETE", f"/clusters/{cluster_id}")
    assert service.call("GET", f"/clusters/{cluster_id}")["state"] == "deleting"


def test_credentials_are_those_of_the_cluster_behind(service: Service) -> None:
    cluster_id = service.cluster()
    path = f"/k8s/{cluster_id}/user_config"
    assert service.refused("GET", path) == "ErrorKubeconfigNotFound"
    assert service.refused("GET", path, TemporaryDurationMinutes="5") == "InvalidParameter.TemporaryDurationMinutes"


def test_versions_tell_where_they_lead(service: Service) -> None:
    versions = {one["version"]: one for one in service.call("GET", "/api/v1/metadata/versions")}
    assert list(versions) == creatable(service.account)
    assert versions["1.34.10-aliyun.1"]["upgradable_versions"] == ["1.35.7-aliyun.1"]
    [retired] = service.call("GET", "/api/v1/metadata/versions", KubernetesVersion="1.34.3-aliyun.1")
    assert (retired["version"], retired["creatable"]) == ("1.34.3-aliyun.1", False)
    assert retired["upgradable_versions"] == ["1.34.10-aliyun.1", "1.35.7-aliyun.1"]


def test_an_unknown_cluster_is_not_found(service: Service) -> None:
    for path in ("/clusters/c9", "/clusters/c9/resources", "/clusters/c9/nodepools", "/k8s/c9/user_config"):
        assert service.refused("GET", path) == "ErrorClusterNotFound"


def _delete(service: Service, cluster_id: str, **query: str) -> None:
    service.finish(service.call("DELETE", f"/clusters/{cluster_id}", **query))
    assert service.refused("GET", f"/clusters/{cluster_id}") == "ErrorClusterNotFound"
