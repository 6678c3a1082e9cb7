"""Settings of prices, which replace those of the built-in list in cost estimates."""

from __future__ import annotations

import math
from typing import Annotated, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from infra.errors import choices
from infra.instance_types import INSTANCE_TYPES
from infra.prices import Prices
from infra.settings.alicloud_kubernetes import Edition

_PRICED = (*INSTANCE_TYPES, *get_args(Edition))


def _sold_by_the_hour(name: str) -> str:
    if name not in _PRICED:
        raise ValueError(f"is neither an instance type nor an edition that we know. Fix: {choices(name, _PRICED)}")
    return name


def _price(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError("is not a price of one hour. Fix: write a number of at least 0, such as 7.1")
    return value


PriceName = Annotated[str, AfterValidator(_sold_by_the_hour)]
Price = Annotated[float, BeforeValidator(_price)]


class PriceSettings(Prices):
    """Prices of one's own, which replace those of the built-in list one by one."""

    per_hour: dict[PriceName, Price] = Field(min_length=1)
    """Price of one hour by instance type, such as `ecs.gn7i-c8g1.2xlarge`, and by edition of the control plane, such as
    `ack.pro.small`."""
