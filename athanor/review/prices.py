"""Prices of one hour: the table of infra/instance_types.py, or a file of your own."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infra.cost import ACK_PRO_CNY
from infra.errors import RefusalError
from infra.instance_types import INSTANCE_TYPES, PRICES_AS_OF

if TYPE_CHECKING:
    from pathlib import Path

CONTROL_PLANE = "ack.pro.small"
"""The edition of a cluster whose price is known; editions are priced under their own names."""


class Prices(BaseModel):
    """What things cost for an hour."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    as_of: dt.date
    """Day on which the prices were read."""
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "CNY"
    """ISO 4217."""
    per_hour: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]
    """By instance type, such as ecs.gn7i-c8g1.2xlarge, and by edition of the cluster, such as ack.pro.small."""
    source: str = "a file of prices"
    """Where they come from, for the report."""

    def of(self, name: str) -> float | None:
        """Return the price of one; None where it is unknown."""
        return self.per_hour.get(name)


def list_prices() -> Prices:
    """Return the list prices that this project knows."""
    nodes = {row.name: row.price_cny_per_hour for row in INSTANCE_TYPES.values() if row.price_cny_per_hour is not None}
    return Prices(
        as_of=dt.date.fromisoformat(PRICES_AS_OF),
        per_hour={**nodes, CONTROL_PLANE: ACK_PRO_CNY},
        source="Alibaba Cloud's list, pay-as-you-go, mainland regions",
    )


def read_prices(file: Path) -> Prices:
    """Return the prices of a YAML or JSON file; in the list's currency, they replace the list's one by one.

    Raises:
        RefusalError: the file is not a table of prices.
        OSError: it cannot be read.
    """
    try:
        own = Prices.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (ValidationError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise RefusalError(
            "--prices",
            str(file),
            f"is not a table of prices: {_first_line(error)}",
            "write as_of: 2026-11-01, currency: CNY, per_hour: {ecs.gn7i-c8g1.2xlarge: 9.9}",
        ) from None
    listed = list_prices()
    if own.currency != listed.currency:
        return own
    return own.model_copy(
        update={
            "per_hour": {**listed.per_hour, **own.per_hour},
            "source": f"{own.source}; for what it leaves out, {listed.source} of {listed.as_of}",
        }
    )


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        return f"{'.'.join(str(part) for part in problem['loc']) or 'the whole file'}: {problem['msg']}"
    return str(error).splitlines()[0]
