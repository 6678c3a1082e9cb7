"""How near nodes are to each other in the network, as Volcano's HyperNodes tell it."""

from __future__ import annotations

POOL_TIER = 1
"""Tier of the nodes that one pool has in one zone."""
ZONE_TIER = 2
"""Tier of all nodes of one zone."""
