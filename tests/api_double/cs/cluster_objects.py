"""What ACK puts into a new cluster, as far as workloads notice: Terway's CRD and configuration, CSI drivers.

Schema of PodNetworking: Alibaba Cloud, "Configure vSwitches and security groups for pods" and Terway's documentation.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.api_double.cs.addon_catalogue import TERWAY
from tests.api_double.cs.simulated_node import MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.api_double.account import Account, Record
    from tests.api_double.cs.kubernetes_api import Object

POD_NETWORKING_GROUP = "network.alibabacloud.com"
POD_NETWORKINGS = f"/apis/{POD_NETWORKING_GROUP}/v1beta1/podnetworkings"
ENI_CONFIG = "eni-config"
_CSI = {"csi-plugin": ("diskplugin", "nasplugin", "ossplugin")}
_STRING: Object = {"type": "string"}


def _choice(*values: str) -> Object:
    return {"type": "string", "enum": list(values)}


def _strings(**limits: int) -> Object:
    return {"type": "array", "items": _STRING, **limits}


def _fields(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


_SELECTOR = _fields(
    matchLabels={"type": "object", "additionalProperties": _STRING},
    matchExpressions={"type": "array", "items": _fields(key=_STRING, operator=_STRING, values=_strings())},
)
_SPEC = _fields(
    allocationType=_fields(
        type={**_choice("Elastic", "Fixed"), "default": "Elastic"},
        releaseStrategy=_choice("TTL", "Never"),
        releaseAfter=_STRING,
    ),
    eniOptions=_fields(eniType=_choice("Default", "Trunk", "ENI")),
    selector=_fields(podSelector=_SELECTOR, namespaceSelector=_SELECTOR),
    vSwitchOptions=_strings(),
    vSwitchSelectOptions=_fields(vSwitchSelectionPolicy=_choice("ordered", "most", "random")),
    securityGroupIDs=_strings(maxItems=10),
)
_STATUS = _fields(
    status=_STRING,
    message=_STRING,
    updateAt={"type": "string", "format": "date-time"},
    vSwitches={"type": "array", "items": _fields(id=_STRING, zone=_STRING)},
)


def pod_networking_crd() -> Object:
    """Return the CRD of PodNetworking."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podnetworkings.{POD_NETWORKING_GROUP}", "labels": {MARK: TERWAY}},
        "spec": {
            "group": POD_NETWORKING_GROUP,
            "scope": "Cluster",
            "names": {
                "kind": "PodNetworking",
                "listKind": "PodNetworkingList",
                "plural": "podnetworkings",
                "singular": "podnetworking",
            },
            "versions": [
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": _fields(spec=_SPEC, status=_STATUS)},
                }
            ],
        },
    }


def eni_config(account: Account, cluster: Record, configuration: Mapping[str, Any]) -> Object:
    """Return Terway's configuration as it is at a cluster's birth; afterwards it is the user's to change."""
    vswitches: dict[str, list[str]] = {}
    for vswitch_id in cluster["_pod_vswitch_ids"]:
        vswitches.setdefault(account.all("vswitch")[vswitch_id]["ZoneId"], []).append(vswitch_id)
    settings = {
        "version": "1",
        "max_pool_size": 5,
        "min_pool_size": 0,
        "enable_eni_trunking": configuration.get("ENITrunking") == "true",
        "vswitches": vswitches,
        "security_group": cluster["security_group_id"],
        "service_cidr": cluster["service_cidr"],
        "ip_stack": cluster["ip_stack"],
        "vswitch_selection_policy": "ordered",
    }
    policy = configuration.get("NetworkPolicy") != "true"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ENI_CONFIG, "namespace": "kube-system", "labels": {MARK: TERWAY}},
        "data": {
            "eni_conf": json.dumps(settings),
            "10-terway.conf": json.dumps({"cniVersion": "0.4.0", "name": "terway", "type": "terway"}),
            "disable_network_policy": str(policy).lower(),
        },
    }


def csi_drivers(addons: Mapping[str, Record]) -> list[Object]:
    """Return the CSI drivers of the add-ons that a cluster has."""
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": f"{driver}.csi.alibabacloud.com", "labels": {MARK: addon}},
            "spec": {"attachRequired": driver == "diskplugin", "podInfoOnMount": True},
        }
        for addon, drivers in _CSI.items()
        if addon in addons
        for driver in drivers
    ]


def csi_node(node: Object, drivers: Iterable[Object]) -> Object:
    """Return what the drivers register of a node when they start there; it goes with the node.

    Volcano counts the volumes of pods against it: on a node without it, no pod with such a volume has room.
    """
    name = node["metadata"]["name"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "ownerReferences": [owner], "labels": {MARK: "node"}},
        "spec": {
            "drivers": [
                {"name": driver["metadata"]["name"], "nodeID": node["spec"]["providerID"], "topologyKeys": []}
                for driver in drivers
            ]
        },
    }
