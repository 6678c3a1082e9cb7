"""Kubernetes quantities as the API server writes them."""

from __future__ import annotations


def gib_quantity(gib: int) -> str:
    """Return a size with the largest binary unit that keeps it whole, as the API server returns it.

    It turns 1024Gi into 1Ti, which every refresh would show as a change.
    """
    for unit in ("Gi", "Ti"):
        if gib % 1024:
            return f"{gib}{unit}"
        gib //= 1024
    return f"{gib}Pi"
