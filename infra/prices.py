"""A table of hourly prices, and its replacement by another one. The built-in list is in infra/cost.py."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_GO_DATE = re.compile(r"(\d{4}-\d\d-\d\d) 00:00:00 \+0000 UTC")


def _plain_date(value: object) -> object:
    """YAML reads a date without quotes as a time, and the engine passes that on as Go prints it."""
    date = _GO_DATE.fullmatch(value) if isinstance(value, str) else None
    return date[1] if date else value


class Prices(BaseModel):
    """What things cost for an hour."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    as_of: Annotated[dt.date, BeforeValidator(_plain_date)]
    """Day on which the prices were read, such as 2026-11-01."""
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "CNY"
    """ISO 4217. In another one than CNY, the built-in list does not count."""
    per_hour: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]
    """By instance type, such as ecs.gn7i-c8g1.2xlarge, and by edition of the cluster, such as ack.pro.small."""
    source: str | None = None
    """Where they come from, for reports, such as "our contract"."""

    def of(self, name: str) -> float | None:
        """Return the price of one; None where it is unknown."""
        return self.per_hour.get(name)


def layered(own: Prices, below: Prices, *, called: str) -> Prices:
    """Return own prices, and those of another table for what they leave out; in another currency, the own ones alone.

    Args:
        own: they come first, one by one; the day of the result is theirs.
        below: the table under them.
        called: what reports call the own ones, if they do not name their source.
    """
    source = f"{called}: {own.source}" if own.source else called
    if own.currency != below.currency:
        return own.model_copy(update={"source": source})
    return own.model_copy(
        update={
            "per_hour": {**below.per_hour, **own.per_hour},
            "source": f"{source}; for what it leaves out: {below.as_of}, {below.source}",
        }
    )
