"""Formatting of values in Grafana's units, each with its steps (seconds: ms, s, min …)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

if TYPE_CHECKING:
    from collections.abc import Iterable

_Steps = tuple[tuple[float, str], ...]

_PLAIN: _Steps = ((1, ""),)
_SHORT: _Steps = ((1, ""), (1e3, " K"), (1e6, " M"), (1e9, " G"), (1e12, " T"))
_SECONDS: _Steps = (
    (1e-9, " ns"), (1e-6, " µs"), (1e-3, " ms"), (1, " s"), (60, " min"), (3600, " h"), (86400, " d"),
)  # fmt: skip


def _binary(suffix: str) -> _Steps:
    return tuple((1024**power, f" {prefix}{suffix}") for power, prefix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi")))


def _decimal(suffix: str) -> _Steps:
    return tuple((1000**power, f" {prefix}{suffix}") for power, prefix in enumerate(("", "k", "M", "G", "T", "P")))


def _per_second(what: str) -> _Steps:
    return ((1, f" {what}/s"), (1e3, f" K{what}/s"), (1e6, f" M{what}/s"))


_UNITS: dict[str, _Steps] = {
    units.NoUnit: _PLAIN,
    units.Short: _SHORT,
    units.PercentUnit: ((0.01, " %"),),
    units.Seconds: _SECONDS,
    units.Milliseconds: tuple((size * 1e3, name) for size, name in _SECONDS),
    units.BytesIEC: _binary("B"),
    units.BytesPerSecondSI: _decimal("B/s"),
    units.PacketsPerSecond: _per_second("p"),
    units.CountsPerSecond: _per_second(""),
    units.RequestsPerSecond: _per_second("req"),
    units.Celsius: ((1, " °C"),),
    units.Watt: _decimal("W"),
    units.KiloWattHour: ((1, " kWh"),),
}
_OWN_CURRENCY = "currency:"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The divisor of values, and the unit after them."""

    size: float
    suffix: str


def scale(unit: str, values: Iterable[float]) -> Scale:
    """Return the scale that shows the largest of the values best.

    Raises:
        ValueError: the unit is not known here.
    """
    steps = _steps(unit)
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not largest:
        # nothing is neither nanoseconds nor days
        size, suffix = next((step for step in steps if step[0] == 1), steps[0])
    else:
        size, suffix = next((step for step in reversed(steps) if largest >= step[0]), steps[0])
    return Scale(size=size, suffix=suffix)


def digits(value: float, decimals: int | None) -> int:
    """Return how many decimals a scaled value is written with: three significant digits, without trailing zeros."""
    if decimals is not None:
        return decimals
    if not value or not math.isfinite(value):
        return 0
    most = max(0, 2 - math.floor(math.log10(abs(value))))
    _, _, fraction = f"{value:.{most}f}".partition(".")
    return len(fraction.rstrip("0"))


def formatted(unit: str, value: float, decimals: int | None = None) -> str:
    """Return a value with its unit.

    Raises:
        ValueError: the unit is not known here.
    """
    if not math.isfinite(value):
        return str(value)
    if unit == units.DatetimeISO:
        return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    chosen = scale(unit, [value])
    scaled = value / chosen.size
    return f"{scaled:,.{digits(scaled, decimals)}f}{chosen.suffix}"


def _steps(unit: str) -> _Steps:
    if unit.startswith(_OWN_CURRENCY):
        return ((1, f" {unit.removeprefix(_OWN_CURRENCY)}"),)
    steps = _UNITS.get(unit)
    if steps is None:
        raise ValueError(f"unit {unit!r}: is not in tools/operations/dashboards/units.py. Fix: add its format there")
    return steps
