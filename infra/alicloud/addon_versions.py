"""Versions of add-ons: those of the table are minimums, and no add-on is ever downgraded.

The provider's add-on resource upgrades whatever differs from the version it is given, without looking which is higher
(terraform-provider-alicloud 1.285.0, resource_alicloud_cs_kubernetes_addon.go, needUpgrade), and it does so on a change
of the configuration, too. ACK itself and users of its console upgrade add-ons as well. So an add-on that exists in a
higher version is declared in that version.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pulumi
import pulumi_alicloud as alicloud

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.alicloud.ack_cluster import AckCluster

_NUMBERS = re.compile(r"v?(\d+(?:\.\d+)*)")


def addon_order(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, for comparisons: (0, 3, 9, 7) of v0.3.9.7-85b3699-aliyun."""
    match = _NUMBERS.match(version)
    return tuple(int(number) for number in match[1].split(".")) if match else ()


def never_lower(minimum: str, installed: str) -> str:
    """Return the version to declare: the installed one, unless it is lower than the minimum or there is none."""
    return installed if installed and addon_order(installed) >= addon_order(minimum) else minimum


def installed_versions(cluster: AckCluster) -> pulumi.Output[Mapping[str, str]]:
    """Return the versions of the add-ons that a cluster has, by name; unknown as long as there is no cluster."""
    answer = alicloud.cs.get_kubernetes_addons_output(
        cluster_id=cluster.cluster_id, opts=pulumi.InvokeOutputOptions(parent=cluster)
    )
    return answer.apply(lambda known: {addon.name: addon.current_version for addon in known.addons})
