"""The cluster step: the API server of the ACK cluster, its versions, its add-ons."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from athanor.account.errors import CloudError
from infra.alicloud.addon_table import ADDONS, Environment, version_of
from infra.alicloud.addon_versions import never_lower
from tools.acceptance.questions import items, optional
from tools.acceptance.steps.leftovers import DISKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site

_DETAILS = ("state", "cluster_spec", "current_version", "init_version", "proxy_mode", "network_mode", "profile")
_DISK_DRIVER = "diskplugin.csi.alibabacloud.com"


def cluster(site: Site, findings: Findings) -> None:
    """Ask API server and ACK what there is.

    Raises:
        CommandError: the API server does not answer; it is private by default (docs/alicloud.md, section 7).
        CloudError: ACK hands out no kubeconfig.
    """
    version = json.loads(site.kubectl.run("version", "-o", "json"))["serverVersion"]["gitVersion"]
    findings.figure("API server", version)
    expected = site.alicloud.kubernetes.new_version
    if not version.startswith(f"v{expected}") and not expected.startswith(version.removeprefix("v")):
        findings.compare("Kubernetes version of the API server", expected, version)
    detail = optional(
        findings,
        "cs DescribeClusterDetail",
        lambda: _selected(site.cloud.get(f"/clusters/{site.cluster_id}", "DescribeClusterDetail")),
    )
    for name, value in (detail or {}).items():
        findings.figure(f"cluster {name}", value)
    _addons(site, findings)
    _remember_disks(site)


def _selected(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {name: detail[name] for name in _DETAILS if detail.get(name)}


def _addons(site: Site, findings: Findings) -> None:
    """Compare the add-ons that ACK has installed with ours."""
    environment = Environment(alicloud=site.alicloud, images=site.settings.images, monitoring=site.settings.monitoring)
    ours = {addon.name: version_of(addon, environment) for addon in ADDONS if addon.applies_to(environment)}
    for name, minimum in ours.items():
        installed = _installed(site, name)
        findings.figure(f"add-on {name}", f"{installed} (at least {minimum})")
        findings.compare(f"version of the add-on {name}", never_lower(minimum, installed), installed)
    listed = optional(
        findings,
        "cs ListClusterAddonInstances",
        lambda: site.cloud.get(f"/clusters/{site.cluster_id}/addon_instances", "ListClusterAddonInstances"),
    )
    for one in items(listed or {}, "addons"):
        if one["name"] not in ours:
            findings.compare(f"add-on {one['name']}, which is not ours", "not installed", one.get("version"))


def _installed(site: Site, name: str) -> str:
    path = f"/clusters/{site.cluster_id}/addon_instances/{name}"
    try:
        return str(site.cloud.get(path, "GetClusterAddonInstance")["version"])
    except CloudError as error:
        return f"not answered: {error}"


def _remember_disks(site: Site) -> None:
    volumes = [volume["spec"] for volume in site.kubectl.items("persistentvolumes", None)]
    disks = [spec["csi"]["volumeHandle"] for spec in volumes if spec.get("csi", {}).get("driver") == _DISK_DRIVER]
    site.journal.notes[DISKS] = sorted({*site.journal.notes.get(DISKS, []), *disks})
    site.journal.save()
