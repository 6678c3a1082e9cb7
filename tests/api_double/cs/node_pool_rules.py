"""What ACK refuses of a node pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.instance_types import INSTANCE_TYPES
from tests.api_double.cs.body import items, section
from tests.api_double.protocol import ApiError

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record

SCALING_TYPES = ("cpu", "gpu", "gpushare", "spot")
SPOT_STRATEGIES = ("NoSpot", "SpotWithPriceLimit", "SpotAsPriceGo")
MULTI_AZ_POLICIES = ("PRIORITY", "COST_OPTIMIZED", "BALANCE")
TAINT_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
GPU_SCHEDULING = ("default", "cgpu", "core_mem", "share", "mps", "topology")
MOST_NODES = 2000
MOST_MARKS = 11
"""ACK, "Enable node auto scaling": fewer than 12 tags, labels and taints of a pool that scales, together."""
HTTP_TOKENS = ("optional", "required")
CGROUP_V2_MINOR, CGROUP_V1_IMAGES = 34, ("AliyunLinux3",)
_GPU_SCHEDULING_LABEL = "ack.node.gpu.schedule"


def check(account: Account, cluster: Record, pool: Record, *, own_id: str = "") -> None:
    """Refuse a pool that could not exist.

    Args:
        account: where everything else is.
        cluster: its cluster.
        pool: the pool as it would be.
        own_id: its id, where it exists already.

    Raises:
        ApiError: the first thing that is wrong with it.
    """
    _check_name(account, cluster, pool, own_id)
    _check_network(account, cluster, pool["scaling_group"])
    if pool["nodepool_info"]["type"] == "lingjun":
        _check_lingjun(cluster, pool)
    else:
        _check_instances(pool["scaling_group"])
        _check_image(cluster, pool["scaling_group"])
    _check_custom_data(account, pool["scaling_group"], pool["kubernetes_config"])
    _check_size(pool)
    _check_marks(pool)
    _check_kubernetes(pool["kubernetes_config"])


def check_change(pool: Record, changed: Record) -> None:
    """Refuse what a pool keeps: ACK, "Create and manage node pools", billing method; the code is ours.

    Raises:
        ApiError: on-demand nodes would become spot nodes, or the other way round.
    """
    before, after = (each["scaling_group"].get("spot_strategy") or "NoSpot" for each in (pool, changed))
    if (before == "NoSpot") != (after == "NoSpot"):
        raise _refuse("SpotStrategy", f"spot_strategy can not be changed from {before} to {after}")


def _refuse(field: str, message: str) -> ApiError:
    return ApiError(400, f"InvalidParameter.{field}", message)


def _one_of(field: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise _refuse(field, f"{field} {value!r} is not one of {', '.join(allowed)}")


def _check_name(account: Account, cluster: Record, pool: Record, own_id: str) -> None:
    name = pool["nodepool_info"].get("name") or ""
    if not 1 <= len(name) <= 63:
        raise _refuse("Name", f"nodepool name {name!r} must have 1 to 63 characters")
    for other_id, other in account.all("node_pool").items():
        if (
            other_id != own_id
            and other["_cluster"] == cluster["cluster_id"]
            and other["nodepool_info"]["name"] == name
            and other["status"]["state"] != "deleting"
        ):
            raise _refuse("Name", f"nodepool name {name} is already exist in cluster {cluster['cluster_id']}.")


def _check_network(account: Account, cluster: Record, group: dict[str, Any]) -> None:
    vswitch_ids = items(group, "vswitch_ids")
    if not vswitch_ids:
        raise _refuse("VswitchIds", "vswitch_ids can not be empty")
    for vswitch_id in vswitch_ids:
        vswitch = account.find("vswitch", vswitch_id)
        if vswitch is None:
            raise ApiError(400, "InvalidVSwitchId.NotFound", f"VSwitch {vswitch_id} not found")
        if vswitch["VpcId"] != cluster["vpc_id"]:
            raise _refuse("VswitchIds", f"VSwitch {vswitch_id} is not in the cluster's VPC {cluster['vpc_id']}")
    for group_id in items(group, "security_group_ids"):
        if account.find("security_group", group_id) is None:
            raise ApiError(400, "InvalidSecurityGroupId.NotFound", f"security group {group_id} not found")
    if group.get("deploymentset_id"):
        _check_deployment_set(account, group, group["deploymentset_id"])


def _check_deployment_set(account: Account, group: dict[str, Any], identifier: str) -> None:
    """Refuse what ECS, "Deployment sets", does not place; the codes are ours, for no document names any."""
    deployment_set = account.find("deployment_set", identifier)
    if deployment_set is None:
        raise ApiError(400, "InvalidDeploymentSetId.NotFound", f"deployment set {identifier} not found")
    if group.get("spot_strategy", "NoSpot") != "NoSpot":
        raise _refuse("DeploymentsetId", f"deployment set {identifier} takes no preemptible instances")
    if deployment_set.get("DeploymentStrategy") != "LowLatency":
        return
    for name in items(group, "instance_types"):
        if name in INSTANCE_TYPES and not INSTANCE_TYPES[name].low_latency:
            raise _refuse("DeploymentsetId", f"{name} is not supported by the strategy LowLatency of {identifier}")
    if len(items(group, "vswitch_ids")) > 1:
        raise _refuse("DeploymentsetId", f"instances of {identifier} must be in one zone")


def _check_instances(group: dict[str, Any]) -> None:
    types = items(group, "instance_types")
    if not types:
        raise _refuse("InstanceTypes", "instance_types or instance_patterns must be given")
    for name in types:
        if name not in INSTANCE_TYPES:
            raise ApiError(400, "InvalidInstanceType.ValueNotSupported", f"The instance type {name} is not supported")
    _one_of("MultiAzPolicy", group.get("multi_az_policy"), MULTI_AZ_POLICIES)
    _one_of("SpotStrategy", group.get("spot_strategy"), SPOT_STRATEGIES)
    if group.get("spot_strategy") == "SpotWithPriceLimit":
        limited = {limit["instance_type"] for limit in items(group, "spot_price_limit")}
        missing = [name for name in types if name not in limited]
        if missing:
            raise _refuse("SpotPriceLimit", f"spot_price_limit of {', '.join(missing)} is missing")
    if not group.get("system_disk_category") and not group.get("system_disk_categories"):
        raise _refuse("SystemDiskCategory", "system_disk_category can not be empty")


def _check_image(cluster: Record, group: dict[str, Any]) -> None:
    _one_of("HttpTokens", section(group, "instance_metadata_options").get("http_tokens"), HTTP_TOKENS)
    minor = int(cluster["current_version"].split(".")[1])
    if minor >= CGROUP_V2_MINOR and group.get("image_type") in CGROUP_V1_IMAGES:
        raise _refuse("ImageType", f"image type {group['image_type']} does not support cgroup v2")


def _check_custom_data(account: Account, *sections: dict[str, Any]) -> None:
    """Refuse pre-defined custom data of an account that has not applied for it: ACK, "Create a cluster"; our code."""
    if any(each.get("pre_user_data") for each in sections) and "pre_user_data" not in account.applied_for:
        raise _refuse("PreUserData", "pre-defined custom data is not enabled for this account: apply in Quota Center")


def _check_marks(pool: Record) -> None:
    """Refuse what the autoscaler cannot read; ACK names the limit, but neither the code nor the words."""
    configuration = pool["kubernetes_config"]
    marks = [*items(pool["scaling_group"], "tags"), *configuration.get("labels", []), *configuration.get("taints", [])]
    if pool["auto_scaling"].get("enable") and len(marks) > MOST_MARKS:
        raise _refuse("Tags", f"{len(marks)} tags, labels and taints: must be less than {MOST_MARKS + 1}")


def _check_lingjun(cluster: Record, pool: Record) -> None:
    group = pool["_eflo_node_group"]
    if not group.get("cluster_id") or not group.get("group_id"):
        raise _refuse("EfloNodeGroup", "a lingjun node pool needs eflo_node_group.cluster_id and group_id")
    if not cluster["cluster_spec"].startswith("ack.pro"):
        raise _refuse("Type", "lingjun node pools need an ACK Pro cluster")
    if pool["auto_scaling"].get("enable"):
        raise _refuse("AutoScaling", "lingjun node pools can not scale automatically")


def _check_size(pool: Record) -> None:
    scaling = pool["auto_scaling"]
    desired = pool["scaling_group"].get("desired_size")
    if desired is not None and not 0 <= desired <= MOST_NODES:
        raise _refuse("DesiredSize", f"desired_size {desired} is not within 0 and {MOST_NODES}")
    if not scaling.get("enable"):
        return
    _one_of("AutoScaling.Type", scaling.get("type"), SCALING_TYPES)
    low, high = scaling.get("min_instances"), scaling.get("max_instances")
    if low is None or high is None:
        raise _refuse("AutoScaling", "min_instances and max_instances must be given")
    if not 0 <= low <= high <= MOST_NODES:
        raise _refuse(
            "AutoScaling", f"min_instances {low} and max_instances {high}: need 0 <= min <= max <= {MOST_NODES}"
        )
    if desired is not None and not low <= desired <= high:
        raise _refuse("DesiredSize", f"desired_size {desired} is not within min_instances {low} and {high}")


def _check_kubernetes(configuration: dict[str, Any]) -> None:
    labels = configuration.get("labels", [])
    keys = [label["key"] for label in labels]
    if len(set(keys)) != len(keys):
        raise _refuse("Labels", f"label keys repeat: {', '.join(sorted(keys))}")
    for taint in configuration.get("taints", []):
        _one_of("Taints.Effect", taint.get("effect"), TAINT_EFFECTS)
    for label in labels:
        if label["key"] == _GPU_SCHEDULING_LABEL:
            _one_of(_GPU_SCHEDULING_LABEL, label["value"], GPU_SCHEDULING)
