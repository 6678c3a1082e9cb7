"""Kubernetes quantities: read as numbers, and written as the API server writes them."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {
    "": Fraction(1),
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate(("m", "u", "n"), start=1)},
    **{unit: Fraction(1000**power) for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{unit: Fraction(1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([a-zA-Z]{0,2})", re.ASCII)


def gib_quantity(gib: int) -> str:
    """Return a size with the largest binary unit that keeps it whole, as the API server returns it.

    It turns 1024Gi into 1Ti, which every refresh would show as a change.
    """
    for unit in ("Gi", "Ti"):
        if gib % 1024:
            return f"{gib}{unit}"
        gib //= 1024
    return f"{gib}Pi"


def mib_quantity(mib: int) -> str:
    """Return a size given in MiB as `gib_quantity` does."""
    return gib_quantity(mib // 1024) if mib and not mib % 1024 else f"{mib}Mi"


def millis_quantity(millis: int) -> str:
    """Return a number of thousandths: 1500m, but 2 instead of 2000m, as the API server returns it."""
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


def quantity_value(text: str) -> Fraction:
    """Return the number that a quantity stands for: 500m is a half, 4Gi is 4 * 1024^3, 1e3 is 1000.

    Source: k8s.io/apimachinery, pkg/api/resource, "Quantity".

    Raises:
        ValueError: it is not a quantity.
    """
    parts = _QUANTITY.fullmatch(text)
    if parts is None or parts[2] not in _UNITS:
        raise ValueError(
            f"{text!r} is not a Kubernetes quantity. Fix: write a number with an optional unit, such as 4Gi"
        )
    return Fraction(parts[1]) * _UNITS[parts[2]]
