"""Add-ons with pods: their installation does not end before there is a node that the pods can run on.

No document says when ACK calls an installation finished. The provider waits ten minutes for it
(terraform-provider-alicloud 1.285.0, service_alicloud_cs.go, installAddon), so the installation of an add-on with
pods into a cluster without nodes may never end: here it never does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api_double.cs.addon_catalogue import ADDONS

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record

_KEEPS_PODS_AWAY = {"NoSchedule", "NoExecute"}


def waits_for_a_node(account: Account, addon: Record) -> bool:
    """Whether an add-on is being installed whose pods no node of the cluster takes."""
    if addon["state"] != "installing" or ADDONS[addon["name"]].managed:
        return False
    return not any(
        all(taint["effect"] not in _KEEPS_PODS_AWAY for taint in node["taints"])
        for pool in account.all("node_pool").values()
        if pool["_cluster"] == addon["_cluster"]
        for node in pool["_nodes"]
    )
