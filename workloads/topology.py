"""Placement of a job's pods close to each other in the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.topology import POOL_TIER, ZONE_TIER

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.offers import PlatformOffers

_TIERS = {"pool": POOL_TIER, "zone": ZONE_TIER}


@checked("together")
@dataclass(frozen=True, kw_only=True)
class Together:
    """All pods of a job within one zone, or within the nodes that one pool has in one zone."""

    within: Literal["pool", "zone"] = "pool"
    """`pool`: nodes of one pool in one zone, which are of one kind; `zone`: any nodes of one zone."""
    required: bool = True
    """Whether the job rather waits than runs apart."""

    def manifest(self) -> Manifest:
        """Return the `networkTopology` of a Volcano Job."""
        return {"mode": "hard" if self.required else "soft", "highestTierAllowed": _TIERS[self.within]}


def check_together(together: Together | None, offers: PlatformOffers) -> None:
    """Refuse closeness where the platform does not know how its nodes are connected.

    Raises:
        RefusalError: the platform has no HyperNodes.
    """
    if together is not None and not offers.topology:
        limit = "the platform does not know the topology of its nodes"
        raise RefusalError("together", together, limit, "omit it, or use a stack that creates the node pools")
