"""ACK managed clusters: made, looked at, changed, upgraded, deleted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.api_double.cs import addons, cluster_logs, cluster_record, cluster_rules, node_pools, tasks, versions
from tests.api_double.cs.addon_catalogue import ADDONS
from tests.api_double.cs.body import body_of, items
from tests.api_double.cs.find import cluster_of, forget_parts, running_cluster
from tests.api_double.protocol import ApiError, Route

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record, Reference
    from tests.api_double.protocol import Request

DELETE_MODES = {"SLB": "delete", "ALB": "retain", "SLS_Data": "retain", "SLS_ControlPlane": "retain"}
"""What becomes of a kind of resource on deletion where the caller does not say. Source: ACK API, DeleteCluster."""
_DELETABLE = (*DELETE_MODES, "PrivateZone")
_ONLY_IN_DETAIL = {"parameters", "rrsa_config"}
"""What a list of clusters does not say of them."""


def create(account: Account, request: Request) -> dict[str, Any]:
    """Answer CreateCluster."""
    body = body_of(request)
    cluster_rules.check(account, body)
    cluster_id = account.new_id("cluster")
    record = cluster_record.new(account, cluster_id, body.get("region_id") or request.region, body)
    requested_addons = {addon["name"]: addon for addon in items(body, "addons")}
    for known in ADDONS.values():
        if known.by_default:
            requested_addons.setdefault(known.name, {"name": known.name})
    account.add("cluster", cluster_id, record, uses=_uses(record))
    try:
        for addon in requested_addons.values():
            if not addon.get("disabled"):
                addons.add(account, cluster_id, addon)
    except ApiError:
        forget_parts(account, cluster_id)
        account.remove("cluster", cluster_id)
        raise
    cluster_logs.begin(account, record, body)
    answer = tasks.start(account, cluster_id, "cluster_create", ("cluster", cluster_id))
    account.begin("cluster", cluster_id, {}, {"state": "running"})
    _tell(account)
    return answer


def describe(account: Account, _request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer DescribeClusterDetail."""
    record = cluster_of(account, cluster_id)
    pools = [pool for pool in account.all("node_pool").values() if pool["_cluster"] == cluster_id]
    record["size"] = sum(len(pool["_nodes"]) for pool in pools)
    account.read("cluster", cluster_id)
    return {name: value for name, value in cluster_of(account, cluster_id).items() if not name.startswith("_")}


def describe_all(account: Account, _request: Request) -> dict[str, Any]:
    """Answer DescribeClustersV1."""
    clusters = [
        {name: value for name, value in cluster.items() if name not in _ONLY_IN_DETAIL}
        for cluster in account.read_all("cluster")
    ]
    page = {"page_number": 1, "page_size": len(clusters), "total_count": len(clusters)}
    return {"clusters": clusters, "page_info": page}


def resources(account: Account, _request: Request, cluster_id: str) -> list[dict[str, Any]]:
    """Answer DescribeClusterResources."""
    record = cluster_of(account, cluster_id)
    created = [("SLB", record["_load_balancer"]), ("ALIYUN::ECS::SecurityGroup", record["security_group_id"])]
    return [
        {
            "cluster_id": cluster_id,
            "resource_type": kind,
            "instance_id": identifier,
            "resource_info": "{}",
            "state": "CREATE_COMPLETE",
            "created": record["created"],
            "auto_create": 1,
        }
        for kind, identifier in created
    ]


def user_config(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer DescribeClusterUserKubeconfig: the kubeconfig of the real cluster behind this one."""
    record = cluster_of(account, cluster_id)
    minutes = request.number("TemporaryDurationMinutes", 0)
    if minutes and not 15 <= minutes <= 4320:
        raise ApiError(400, "InvalidParameter.TemporaryDurationMinutes", f"{minutes} is not within 15 and 4320")
    if record["state"] == "initial":
        raise ApiError(400, "ErrorClusterState", f"cluster {cluster_id} is {record['state']}")
    if account.kubernetes.kubeconfig is None:
        raise ApiError(404, "ErrorKubeconfigNotFound", "this double was started without a kubeconfig to hand out")
    # a fixed time far off: what is asked for again must be what it was
    return {"config": account.kubernetes.kubeconfig, "expiration": "2099-01-01T00:00:00Z"}


def modify(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer ModifyCluster."""
    record = running_cluster(account, cluster_id)
    body = body_of(request)
    if body.get("vswitch_ids"):
        cluster_rules.check_vswitches(account, record["vpc_id"], body["vswitch_ids"], "vswitch_ids")
        record["vswitch_id"] = ",".join(body["vswitch_ids"])
    cluster_rules.check_security_group(account, body.get("security_group_id"), record["vpc_id"])
    cluster_rules.check_operations(body)
    if body.get("enable_rrsa") is False and record["_enable_rrsa"]:
        raise cluster_rules.refuse("EnableRrsa", "RRSA can not be disabled again")
    record["name"] = body.get("cluster_name") or record["name"]
    record["_enable_rrsa"] = record["_enable_rrsa"] or bool(body.get("enable_rrsa"))
    names = ("deletion_protection", "maintenance_window", "operation_policy", "resource_group_id", "timezone")
    for name in (*names, "vswitch_ids", "security_group_id"):
        if body.get(name) is not None:
            record[name] = body[name]
    if body.get("api_server_custom_cert_sans"):
        record["_custom_sans"] = body["api_server_custom_cert_sans"]["subject_alternative_names"]
    account.use("cluster", cluster_id, _uses(record))
    return _change(account, record, "cluster_modify")


def modify_tags(account: Account, request: Request, cluster_id: str) -> None:
    """Answer ModifyClusterTags: the tags become these."""
    record = running_cluster(account, cluster_id)
    record["tags"] = [*(request.body or []), {"key": "ack.aliyun.com", "value": cluster_id}]
    _pass(account, record, {"state": "updating"}, {"state": "running"})


def migrate(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer MigrateCluster: from the standard to a Pro edition, never back."""
    record = running_cluster(account, cluster_id)
    body = body_of(request)
    spec: str = body.get("spec") or ""
    if spec not in cluster_rules.SPECS or not spec.startswith("ack.pro"):
        raise cluster_rules.refuse("Spec", f"a cluster can not be migrated from {record['cluster_spec']} to {spec!r}")
    _pass(account, record, {"state": "migrating"}, {"state": "running", "cluster_spec": spec})
    return tasks.start(account, cluster_id, "cluster_migrate", ("cluster", cluster_id))


def encrypt(account: Account, request: Request, cluster_id: str) -> None:
    """Answer UpdateKMSEncryption."""
    record = running_cluster(account, cluster_id)
    body = body_of(request)
    record["_encryption_disabled"] = bool(body.get("disable_encryption"))
    record["_encryption_key"] = None if record["_encryption_disabled"] else body.get("kms_key_id")
    cluster_record.refresh(account, record)
    _pass(account, record, {"state": "updating"}, {"state": "running"})


def upgrade(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer UpgradeCluster: the control plane, and by default the nodes, too."""
    record = running_cluster(account, cluster_id)
    body = body_of(request)
    version = body.get("next_version") or ""
    versions.check_upgrade(account, record["current_version"], version)
    lagging = [
        pool["nodepool_info"]["name"]
        for pool in account.all("node_pool").values()
        if pool["_cluster"] == cluster_id and _minor(pool["_kubelet_version"]) < _minor(version) - 3
    ]
    if lagging:
        raise ApiError(400, "NodesNotUpgraded", f"upgrade the nodes of {', '.join(lagging)} before the control plane")
    # the version is the new one only once the upgrade has ended
    after = {**record, "current_version": version}
    cluster_record.refresh(account, after)
    answer = tasks.start(account, cluster_id, "cluster_upgrade", ("cluster", cluster_id))
    changed = ("current_version", "meta_data", "updated")
    _pass(account, record, {"state": "upgrading"}, {"state": "running", **{name: after[name] for name in changed}})
    if not body.get("master_only"):
        for pool in account.all("node_pool").values():
            if pool["_cluster"] == cluster_id:
                pool["_kubelet_version"] = version
    _tell(account)
    return answer


def delete(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer DeleteCluster: with its node pools and add-ons; logs and load balancers as the caller says."""
    record = cluster_of(account, cluster_id)
    if record["deletion_protection"]:
        raise ApiError(400, "ErrorClusterDeletionProtection", f"deletion protection of cluster {cluster_id} is enabled")
    options: list[dict[str, str]] = json.loads(request.get("delete_options", "[]"))
    modes = {**DELETE_MODES}
    for option in options:
        kind, mode = option.get("resource_type") or "", option.get("delete_mode") or ""
        if kind not in _DELETABLE or mode not in {"delete", "retain"}:
            raise cluster_rules.refuse("DeleteOptions", f"delete_options: {kind!r} can not be {mode!r}")
        modes[kind] = mode
    answer = tasks.start(account, cluster_id, "cluster_delete", ("cluster", cluster_id))
    for pool_id, pool in account.all("node_pool").items():
        if pool["_cluster"] == cluster_id:
            account.begin("node_pool", pool_id, node_pools.gone(pool), None)
    cluster_logs.end(account, record, {kind for kind, mode in modes.items() if mode == "delete"})
    account.begin("cluster", cluster_id, {"state": "deleting"}, None)
    _tell(account)
    return answer


def _change(account: Account, record: Record, kind: str) -> dict[str, Any]:
    cluster_record.refresh(account, record)
    _pass(account, record, {"state": "updating"}, {"state": "running"})
    return tasks.start(account, record["cluster_id"], kind, ("cluster", record["cluster_id"]))


def _pass(account: Account, record: Record, now: dict[str, Any], then: dict[str, Any]) -> None:
    account.begin("cluster", record["cluster_id"], now, then)


def _minor(version: str) -> int:
    return versions.parsed(version)[1]


def _uses(record: Record) -> list[Reference]:
    vswitches = {*record["vswitch_ids"], *record["_pod_vswitch_ids"]}
    used: list[Reference] = [("vpc", record["vpc_id"]), ("security_group", record["security_group_id"])]
    return used + [("vswitch", vswitch_id) for vswitch_id in sorted(vswitches)]


def _tell(account: Account) -> None:
    account.kubernetes.changed()


_CLUSTER = "/clusters/{cluster_id}"
ROUTES = [
    Route("POST", "/clusters", "CreateCluster", create),
    Route("GET", "/api/v1/clusters", "DescribeClustersV1", describe_all),
    Route("GET", _CLUSTER, "DescribeClusterDetail", describe),
    Route("DELETE", _CLUSTER, "DeleteCluster", delete),
    Route("GET", f"{_CLUSTER}/resources", "DescribeClusterResources", resources),
    Route("GET", "/k8s/{cluster_id}/user_config", "DescribeClusterUserKubeconfig", user_config),
    Route("PUT", f"/api/v2{_CLUSTER}", "ModifyCluster", modify),
    Route("POST", f"/api/v2{_CLUSTER}/upgrade", "UpgradeCluster", upgrade),
    Route("POST", f"{_CLUSTER}/tags", "ModifyClusterTags", modify_tags),
    Route("POST", f"{_CLUSTER}/migrate", "MigrateCluster", migrate),
    Route("PUT", f"{_CLUSTER}/kms", "UpdateKMSEncryption", encrypt),
]
