"""Kubernetes quantities: read as numbers, and written as the API server writes them."""

from __future__ import annotations

from fractions import Fraction

_UNITS = {
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000**power) for power, unit in enumerate(("k", "M", "G", "T", "P"), start=1)},
    **{unit: Fraction(1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), start=1)},
}


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
    """Return a quantity as the number it stands for: 500m is a half, 4Gi is 4 * 1024^3.

    Raises:
        ValueError, KeyError: it is no quantity; settings take none such.
    """
    unit = text.lstrip("0123456789.")
    return Fraction(text.removesuffix(unit)) * (_UNITS[unit] if unit else 1)
