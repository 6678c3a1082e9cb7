"""How a cluster looks in the API: DescribeClusterDetail's answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.api_double.account import timestamp
from tests.api_double.cs.body import items
from tests.api_double.cs.versions import creatable

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record

DEFAULT_RESOURCE_GROUP = "rg-acfmdefault"
"""Where the API server is said to be while no real cluster stands behind the double."""


def new(account: Account, cluster_id: str, region: str, body: dict[str, Any]) -> Record:
    """Return the record of a cluster that is being created."""
    vswitch_ids: list[str] = body["vswitch_ids"]
    version = body.get("kubernetes_version") or creatable(account)[0]
    now = timestamp()
    security_group = body.get("security_group_id") or account.new_id("security_group")
    record: Record = {
        "cluster_id": cluster_id,
        "name": body["name"],
        "cluster_type": "ManagedKubernetes",
        "profile": "Default",
        "cluster_spec": body.get("cluster_spec") or "ack.standard",
        "state": "initial",
        "region_id": region,
        "zone_id": account.all("vswitch")[vswitch_ids[0]]["ZoneId"],
        "vpc_id": body["vpcid"],
        "vswitch_id": ",".join(vswitch_ids),
        "vswitch_ids": vswitch_ids,
        "security_group_id": security_group,
        "resource_group_id": body.get("resource_group_id") or DEFAULT_RESOURCE_GROUP,
        "init_version": version,
        "current_version": version,
        "next_version": "",
        "service_cidr": body["service_cidr"],
        "proxy_mode": body.get("proxy_mode") or "ipvs",
        "ip_stack": body.get("ip_stack") or "ipv4",
        "cluster_domain": body.get("cluster_domain") or "cluster.local",
        "deletion_protection": bool(body.get("deletion_protection")),
        "worker_ram_role_name": f"KubernetesWorkerRole-{cluster_id[1:9]}",
        "network_mode": "vpc",
        "private_zone": False,
        "size": 0,
        "tags": [*body.get("tags", []), {"key": "ack.aliyun.com", "value": cluster_id}],
        "parameters": {},
        "created": now,
        "updated": now,
        "_encryption_key": body.get("encryption_provider_key"),
        "_encryption_disabled": None,
        "_enable_rrsa": bool(body.get("enable_rrsa")),
        "_custom_sans": [name for name in (body.get("custom_san") or "").split(",") if name],
        "_public": bool(body.get("endpoint_public_access")),
        "_load_balancer": account.new_id("load_balancer"),
        "_pod_vswitch_ids": items(body, "pod_vswitch_ids"),
        "_audit": {"audit_enabled": False, "sls_project_name": ""},
        "_control_plane_log": {"components": [], "log_project": "", "log_ttl": "30", "aliuid": account.id},
    }
    given_back = ("timezone", "container_cidr", "maintenance_window", "operation_policy", "auto_mode")
    record.update({name: body[name] for name in given_back if body.get(name) is not None})
    if record.get("container_cidr"):
        record["subnet_cidr"] = record["container_cidr"]
        record["node_cidr_mask"] = body.get("node_cidr_mask") or "24"
    refresh(account, record)
    return record


def refresh(account: Account, record: Record) -> None:
    """Update the parts of a cluster's record that follow from others."""
    server = account.kubernetes.server
    # callers split these at the first colon: an address without its scheme would break them
    endpoints = {"intranet_api_server_endpoint": server}
    if record["_public"]:
        endpoints["api_server_endpoint"] = server
    record["master_url"] = json.dumps(endpoints)
    record["rrsa_config"] = rrsa(account, record)
    record["meta_data"] = json.dumps(_metadata(record))
    record["updated"] = timestamp()


def rrsa(account: Account, record: Record) -> dict[str, Any]:
    """Return the OIDC identity provider that pods' service accounts are known by."""
    if not record["_enable_rrsa"]:
        return {"enabled": False}
    region, name = record["region_id"], f"ack-rrsa-{record['cluster_id']}"
    issuer = f"https://oidc-ack-{region}.oss-{region}.aliyuncs.com/{record['cluster_id']}"
    return {
        "enabled": True,
        "issuer": issuer,
        "oidc_name": name,
        "oidc_arn": f"acs:ram::{account.id}:oidc-provider/{name}",
        "audience": "sts.aliyuncs.com",
        "jwks_url": f"{issuer}/keys.json",
        "max_oidc_token_expiration": "12h",
    }


def _metadata(record: Record) -> dict[str, Any]:
    capabilities: dict[str, Any] = {}
    if record["_encryption_key"]:
        capabilities["EncryptionKMSKeyId"] = record["_encryption_key"]
    if record["_encryption_disabled"] is not None:
        capabilities["DisableEncryption"] = record["_encryption_disabled"]
    return {
        "RRSAConfig": record["rrsa_config"],
        "Capabilities": capabilities,
        "ExtraCertSAN": record["_custom_sans"],
        "KubernetesVersion": record["current_version"],
    }
