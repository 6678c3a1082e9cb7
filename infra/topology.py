"""HyperNodes: the network topology of the nodes, as Volcano reads it.

A job that names a tier runs within one HyperNode of that tier or of a lower one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.node_labels import POOL_LABEL, ZONE_LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.manifests import Manifest
    from infra.offers import PoolOffer

POOL_TIER = 1
"""Nodes that one pool has in one zone: of one kind, and with `low_latency` placed close together."""
ZONE_TIER = 2
"""All nodes of one zone."""


def hyper_node_manifests(pools: Sequence[PoolOffer]) -> dict[str, Manifest]:
    """Return the HyperNodes of the pools whose zones are known, by name; members come before what they are part of.

    Nodes are found by their labels, so that those which an autoscaler adds belong at once.
    """
    zones: dict[str, list[str]] = {}
    manifests: dict[str, Manifest] = {}
    for pool in pools:
        for zone in pool.zones:
            name = f"pool.{pool.name}.{zone}"
            labels = {POOL_LABEL: pool.name, ZONE_LABEL: zone}
            selector = {"labelMatch": {"matchLabels": labels}}
            manifests[name] = _hyper_node(name, POOL_TIER, [{"type": "Node", "selector": selector}])
            zones.setdefault(zone, []).append(name)
    for zone, members in zones.items():
        name = f"zone.{zone}"
        pool_members = [{"type": "HyperNode", "selector": {"exactMatch": {"name": member}}} for member in members]
        manifests[name] = _hyper_node(name, ZONE_TIER, pool_members)
    return manifests


def _hyper_node(name: str, tier: int, members: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": members},
    }
