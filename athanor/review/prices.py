"""The prices that a review uses: those of a file, else of the stack's settings, else the built-in list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml
from pydantic import ValidationError

from infra.cost import list_prices, stack_prices
from infra.errors import RefusalError
from infra.prices import Prices, layered

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SETTINGS_KEY = "athanor:prices"
"""The key of a stack's configuration that holds its prices (infra/settings/stack.py)."""


def read_prices(file: Path) -> Prices:
    """Return the prices of a YAML or JSON file.

    Raises:
        RefusalError: the file is not a table of prices.
        OSError: it cannot be read.
    """
    try:
        return Prices.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    except (ValidationError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise RefusalError(
            "--prices",
            str(file),
            f"is not a table of prices: {_first_line(error)}",
            "write as_of: 2026-11-01, currency: CNY, per_hour: {ecs.gn7i-c8g1.2xlarge: 9.9}",
        ) from None


def prices_for(config: Mapping[str, str], own: Prices | None = None) -> Prices:
    """Return the prices for a stack's review; a price that one table lacks is taken from the next.

    Args:
        config: the stack's configuration, as its preview repeats it.
        own: the prices of a file, which come first.
    """
    below = _of_the_settings(config.get(SETTINGS_KEY))
    return below if own is None else layered(own, below, called="a file of prices")


def _of_the_settings(text: str | None) -> Prices:
    if text is None:
        return list_prices()
    try:
        return stack_prices(Prices.model_validate(json.loads(text)))
    except (ValueError, RecursionError) as error:  # the program refuses it, and the report has to say so
        unread = f"{SETTINGS_KEY} cannot be read ({_first_line(error)}); {list_prices().source}"
        return list_prices().model_copy(update={"source": unread})


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        return f"{'.'.join(str(part) for part in problem['loc']) or 'the whole file'}: {problem['msg']}"
    return str(error).splitlines()[0]
