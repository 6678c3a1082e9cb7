"""The account step: the caller's identity, ACK's Kubernetes versions, stock of instance types. Creates nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.acceptance.questions import items, optional
from tools.stacks.stock import stock_queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site
    from tools.stacks.stock import StockQuery


def account(site: Site, findings: Findings) -> None:
    """Ask the account what an `up` depends on; what the policy does not allow is left out and reported.

    Raises:
        CloudError: nobody knows these credentials.
    """
    identity = site.cloud.rpc("sts", "GetCallerIdentity")
    findings.figure("identity", f"{identity['IdentityType']} {identity['Arn']}")
    findings.figure("region", site.alicloud.region)
    _versions(site, findings)
    for query in stock_queries(site.alicloud):
        title = f"stock of {query.instance_type} in {query.zone} ({query.pool.name})"
        findings.figure(title, _stock(site, findings, query))


def _versions(site: Site, findings: Findings) -> None:
    query = {"Region": site.alicloud.region, "ClusterType": "ManagedKubernetes"}
    offered = optional(
        findings,
        "cs DescribeKubernetesVersionMetadata",
        lambda: site.cloud.get("/api/v1/metadata/versions", "DescribeKubernetesVersionMetadata", **query),
    )
    if offered is None:
        return
    names = [one["version"] for one in offered]
    findings.figure("Kubernetes versions on offer", ", ".join(names))
    version = site.alicloud.kubernetes.new_version
    if not any(name.startswith(version) for name in names):
        findings.compare("the version in the settings is on offer", version, ", ".join(names))


def _stock(site: Site, findings: Findings, query: StockQuery) -> str:
    """Return the stock of a type in a zone, in ECS' words (ECS, DescribeAvailableResource: StatusCategory)."""
    answer = optional(
        findings,
        f"ecs DescribeAvailableResource {query.instance_type} {query.zone}",
        lambda: site.cloud.rpc("ecs", "DescribeAvailableResource", **query.parameters),
    )
    if answer is None:
        return "not answered"
    categories = [
        str(supported.get("StatusCategory") or supported.get("Status"))
        for supported in _supported(answer, query.zone)
        if supported.get("Value") == query.instance_type
    ]
    return ", ".join(categories) or "not listed"


def _supported(answer: Mapping[str, Any], zone: str) -> list[dict[str, Any]]:
    return [
        supported
        for one in items(answer, "AvailableZones.AvailableZone")
        if one.get("ZoneId") == zone
        for resource in items(one, "AvailableResources.AvailableResource")
        for supported in items(resource, "SupportedResources.SupportedResource")
    ]
