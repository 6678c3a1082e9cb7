"""Node pools: CreateClusterNodePool and what follows."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from tests.api_double.account import timestamp
from tests.api_double.cs import machines, node_pool_rules, tasks, versions
from tests.api_double.cs.body import body_of, items, section
from tests.api_double.cs.find import cluster_of, node_pool_of
from tests.api_double.protocol import ApiError, Route

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record, Reference
    from tests.api_double.protocol import Request

_CHANGEABLE = ("scaling_group", "auto_scaling", "kubernetes_config", "management", "nodepool_info", "tee_config")
"""The sections of a pool that ModifyClusterNodePool takes."""


def create(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer CreateClusterNodePool."""
    cluster = cluster_of(account, cluster_id)
    body = body_of(request)
    pool_id = account.new_id("node_pool")
    pool = _new(account, cluster, pool_id, body)
    node_pool_rules.check(account, cluster, pool)
    account.add("node_pool", pool_id, pool, uses=_uses(cluster_id, pool))
    if body.get("count") is not None:
        pool["scaling_group"]["desired_size"] = body["count"]
    return {**_rescale(account, pool_id, "nodepool_create"), "nodepool_id": pool_id}


def describe(account: Account, _request: Request, cluster_id: str, pool_id: str) -> dict[str, Any]:
    """Answer DescribeClusterNodePoolDetail."""
    cluster_of(account, cluster_id)
    node_pool_of(account, cluster_id, pool_id)
    pool = account.read("node_pool", pool_id)
    if pool is None:
        raise _gone(pool_id)
    return _answer(pool)


def describe_all(account: Account, _request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer DescribeClusterNodePools."""
    cluster_of(account, cluster_id)
    pools = account.read_all("node_pool", lambda pool: pool["_cluster"] == cluster_id)
    return {"nodepools": [_answer(pool) for pool in pools]}


def modify(account: Account, request: Request, cluster_id: str, pool_id: str) -> dict[str, Any]:
    """Answer ModifyClusterNodePool: each section's fields replace those of the pool; nodes keep theirs by default."""
    cluster = cluster_of(account, cluster_id)
    pool = _settled(account, cluster_id, pool_id)
    body = body_of(request)
    changed = copy.deepcopy(pool)
    for name in _CHANGEABLE:
        changed[name].update(_group(body) if name == "scaling_group" else section(body, name))
    node_pool_rules.check(account, cluster, changed, own_id=pool_id)
    node_pool_rules.check_change(pool, changed)
    pool.update({name: changed[name] for name in _CHANGEABLE})
    account.use("node_pool", pool_id, _uses(cluster_id, pool))
    if body.get("update_nodes"):
        for node in pool["_nodes"]:
            node.update(machines.fresh_configuration(pool))
    return {**_rescale(account, pool_id, "nodepool_update"), "nodepool_id": pool_id}


def modify_node_config(account: Account, request: Request, cluster_id: str, pool_id: str) -> dict[str, Any]:
    """Answer ModifyNodePoolNodeConfig: the kubelet's configuration, on all nodes."""
    pool = _settled(account, cluster_id, pool_id)
    pool["node_config"]["kubelet_configuration"] = section(body_of(request), "kubelet_config")
    for node in pool["_nodes"]:
        node["max_pods"] = machines.fresh_configuration(pool)["max_pods"]
    return {**_rescale(account, pool_id, "nodepool_node_config"), "nodepool_id": pool_id}


def upgrade(account: Account, request: Request, cluster_id: str, pool_id: str) -> dict[str, Any]:
    """Answer UpgradeClusterNodepool: kubelet, image or container runtime of all nodes."""
    cluster = cluster_of(account, cluster_id)
    pool = _settled(account, cluster_id, pool_id)
    body = body_of(request)
    version = body.get("kubernetes_version")
    if version and version != cluster["current_version"]:
        raise ApiError(
            400,
            "InvalidParameter.KubernetesVersion",
            f"node pools can only be upgraded to their cluster's version {cluster['current_version']}, not {version}",
        )
    if body.get("image_id"):
        pool["scaling_group"]["image_id"] = body["image_id"]
    if body.get("runtime_version"):
        pool["kubernetes_config"]["runtime_version"] = body["runtime_version"]
    pool["_kubelet_version"] = version or pool["_kubelet_version"]
    answer = _rescale(account, pool_id, "nodepool_upgrade")
    return {"RequestId": answer["request_id"], "task_id": answer["task_id"]}


def delete(account: Account, request: Request, cluster_id: str, pool_id: str) -> dict[str, Any]:
    """Answer DeleteClusterNodepool."""
    cluster_of(account, cluster_id)
    pool = node_pool_of(account, cluster_id, pool_id)
    if pool["_nodes"] and not request.flag("force"):
        raise ApiError(400, "InvalidParameter.Force", f"node pool {pool_id} is not empty: it needs force=true")
    answer = _start(account, cluster_id, "nodepool_delete", pool_id)
    account.begin("node_pool", pool_id, gone(pool), None)
    account.kubernetes.changed()
    return answer


def nodes(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer DescribeClusterNodes."""
    cluster_of(account, cluster_id)
    requested_pool = request.get("nodepool_id")
    entries = [
        {
            "node_name": node["name"],
            "instance_id": node["instance_id"],
            "instance_type": node["instance_type"],
            "ip_address": [node["address"]],
            "nodepool_id": pool_id,
            "instance_charge_type": "PostPaid",
            "spot_strategy": pool["scaling_group"].get("spot_strategy", "NoSpot") if node["spot"] else "NoSpot",
            "node_status": "Ready",
            "state": "running",
            "instance_status": "Running",
            "instance_role": "Worker",
            "is_aliyun_node": True,
            "creation_time": node["created"],
        }
        for pool_id, pool in account.all("node_pool").items()
        if pool["_cluster"] == cluster_id and requested_pool in {"", pool_id}
        for node in pool["_nodes"]
    ]
    return {"nodes": entries, "page": {"page_number": 1, "page_size": len(entries), "total_count": len(entries)}}


def gone(pool: Record) -> dict[str, Any]:
    """Return what a pool that is being deleted has become."""
    emptied: Record = {**pool, "_nodes": []}
    machines.count_nodes(emptied)
    return {"_nodes": [], "status": {**emptied["status"], "state": "deleting"}}


def _new(account: Account, cluster: Record, pool_id: str, body: dict[str, Any]) -> Record:
    now = timestamp()
    runtime, runtime_version = versions.CONTAINER_RUNTIME
    group = _group(body)
    information = section(body, "nodepool_info")
    return {
        "nodepool_info": {
            "resource_group_id": cluster["resource_group_id"],
            **{name: value for name, value in information.items() if value is not None},
            "type": information.get("type") or "ess",
            "nodepool_id": pool_id,
            "region_id": cluster["region_id"],
            "is_default": False,
            "created": now,
            "updated": now,
        },
        "scaling_group": {
            "scaling_group_id": account.new_id("scaling_group"),
            "image_type": "AliyunLinux3ContainerOptimized",
            "image_id": "aliyun_3_x64_20G_alibase_20260915.vhd",
            "platform": "AliyunLinux",
            "instance_charge_type": "PostPaid",
            "multi_az_policy": "BALANCE",
            "security_group_id": cluster["security_group_id"],
            "security_group_ids": [cluster["security_group_id"]],
            "ram_role_name": cluster["worker_ram_role_name"],
            **group,
        },
        "auto_scaling": {"enable": False, **section(body, "auto_scaling")},
        "kubernetes_config": {
            "runtime": runtime,
            "runtime_version": runtime_version,
            "cpu_policy": "none",
            "node_name_mode": "nodeip",
            "cms_enabled": False,
            "unschedulable": False,
            **section(body, "kubernetes_config"),
        },
        "management": {"enable": False, **section(body, "management")},
        "node_config": section(body, "node_config"),
        "tee_config": {"tee_enable": False, **section(body, "tee_config")},
        "status": {"state": "initial"},
        "_cluster": cluster["cluster_id"],
        "_eflo_node_group": section(body, "eflo_node_group"),
        "_kubelet_version": cluster["current_version"],
        "_nodes": [],
    }


def _group(body: dict[str, Any]) -> dict[str, Any]:
    """Return the scaling group of a request as it is handed out again: without its password, tags in small letters.

    The provider writes Key and Value (terraform-provider-alicloud 1.285, `ConvertTags`); the API has key and value.
    """
    group = {name: value for name, value in section(body, "scaling_group").items() if name != "login_password"}
    if group.get("tags"):
        group["tags"] = [{name.lower(): value for name, value in tag.items()} for tag in group["tags"]]
    return group


def _uses(cluster_id: str, pool: Record) -> list[Reference]:
    group = pool["scaling_group"]
    used: list[Reference] = [("cluster", cluster_id)]
    used += [("vswitch", vswitch_id) for vswitch_id in group["vswitch_ids"]]
    used += [("security_group", group_id) for group_id in items(group, "security_group_ids")]
    if group.get("deploymentset_id"):
        used.append(("deployment_set", group["deploymentset_id"]))
    return used


def _settled(account: Account, cluster_id: str, pool_id: str) -> Record:
    """Return a pool that can be changed.

    Raises:
        ApiError: it is being deleted or changed.
    """
    pool = node_pool_of(account, cluster_id, pool_id)
    state = pool["status"]["state"]
    if "_then" in pool and state == "deleting":
        raise ApiError(400, "ErrorNodePoolState", f"node pool {pool_id} is {state}")
    tasks.settle(account, "node_pool", pool_id)
    return pool


def _rescale(account: Account, pool_id: str, kind: str) -> dict[str, Any]:
    """Bring a pool to its size; the answer names the task that fails where machines are out of stock."""
    pool = account.all("node_pool")[pool_id]
    before = len(pool["_nodes"])
    error = machines.resize(account, pool, machines.wanted_size(pool))
    machines.count_nodes(pool)
    passing = {"nodepool_create": "scaling", "nodepool_update": "scaling"}.get(kind, "updating")
    if before > len(pool["_nodes"]):
        passing = "removing"
    pool["nodepool_info"]["updated"] = timestamp()
    answer = _start(account, pool["_cluster"], kind, pool_id, error)
    active = {"status": {**pool["status"], "state": "active"}}
    account.begin("node_pool", pool_id, {"status": {**pool["status"], "state": passing}}, active)
    account.kubernetes.changed()
    return answer


def _start(
    account: Account, cluster_id: str, kind: str, pool_id: str, error: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Start a task on a pool; its answer names no cluster."""
    answer = tasks.start(account, cluster_id, kind, ("node_pool", pool_id), error=error)
    return {name: answer[name] for name in ("request_id", "task_id")}


def _answer(pool: Record) -> Record:
    """Return a pool as an answer: of one that scales by itself, the desired size is what it has scaled to."""
    if pool["auto_scaling"].get("enable"):
        pool["scaling_group"]["desired_size"] = pool["status"]["total_nodes"]
    return pool


def _gone(pool_id: str) -> ApiError:
    return ApiError(404, "ErrorNodePoolNotFound", f"node pool {pool_id} not found")


_POOL = "/clusters/{cluster_id}/nodepools/{pool_id}"
ROUTES = [
    Route("POST", "/clusters/{cluster_id}/nodepools", "CreateClusterNodePool", create),
    Route("GET", "/clusters/{cluster_id}/nodepools", "DescribeClusterNodePools", describe_all),
    Route("GET", _POOL, "DescribeClusterNodePoolDetail", describe),
    Route("PUT", _POOL, "ModifyClusterNodePool", modify),
    Route("DELETE", _POOL, "DeleteClusterNodepool", delete),
    Route("PUT", _POOL + "/node_config", "ModifyNodePoolNodeConfig", modify_node_config),
    Route("POST", _POOL + "/upgrade", "UpgradeClusterNodepool", upgrade),
    Route("GET", "/clusters/{cluster_id}/nodes", "DescribeClusterNodes", nodes),
]
