"""How a cluster's nodes scale by themselves: CreateAutoscalingConfig."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.api_double.cs import addons
from tests.api_double.cs.body import body_of
from tests.api_double.cs.find import cluster_of
from tests.api_double.cs.tasks import start
from tests.api_double.protocol import ApiError, Route

if TYPE_CHECKING:
    from tests.api_double.account import Account
    from tests.api_double.protocol import Request

CLUSTER_AUTOSCALER = "cluster-autoscaler"
"""The default."""
SCALERS = (CLUSTER_AUTOSCALER, "goatscaler")
EXPANDERS = {CLUSTER_AUTOSCALER: ("least-waste", "random", "priority"), "goatscaler": ("least-waste",)}
_NAMES = {
    # the provider reads these two back swapped, so unequal ones show a change forever
    "cool_down_duration": "ScaleDownDelayAfterAdd",
    "unneeded_duration": "ScaleDownUnneededTime",
    "utilization_threshold": "ScaleDownUtilizationThreshold",
    "gpu_utilization_threshold": "ScaleDownGpuUtilizationThreshold",
    "scan_interval": "ScanInterval",
    "scale_down_enabled": "ScaleDownEnabled",
    "expander": "Expander",
    "skip_nodes_with_system_pods": "SkipNodesWithSystemPods",
    "skip_nodes_with_local_storage": "SkipNodesWithLocalStorage",
    "daemonset_eviction_for_nodes": "DaemonsetEvictionForEmptyNodes",
    "max_graceful_termination_sec": "MaxGracefulTerminationSec",
    "min_replica_count": "MinReplicaCount",
    "recycle_node_deletion_enabled": "RecycleNodeDeletionEnabled",
    "scale_up_from_zero": "ScaleUpFromZero",
    "priorities": "Priorities",
}


def create(account: Account, request: Request, cluster_id: str) -> dict[str, Any]:
    """Answer CreateAutoscalingConfig: installs the scaler in place of the other, or changes its configuration."""
    cluster_of(account, cluster_id)
    body = body_of(request)
    scaler = body.get("scaler_type") or CLUSTER_AUTOSCALER
    expander = body.get("expander") or "least-waste"
    if scaler not in SCALERS:
        raise ApiError(400, "InvalidParameter.ScalerType", f"{scaler!r} is not one of {', '.join(SCALERS)}")
    if expander not in EXPANDERS[scaler]:
        raise ApiError(400, "InvalidParameter.Expander", f"{scaler} has no expander {expander!r}")
    configuration = {_NAMES[name]: value for name, value in body.items() if name in _NAMES}
    for other in addons.installed(account, cluster_id).keys() & set(SCALERS) - {scaler}:
        account.remove("addon", addons.key(cluster_id, other))
    addons.add(account, cluster_id, {"name": scaler, "config": json.dumps(configuration)})
    return start(account, cluster_id, "autoscaling_config", ("addon", addons.key(cluster_id, scaler)))


ROUTES = [Route("POST", "/cluster/{cluster_id}/autoscale/config", "CreateAutoscalingConfig", create)]
