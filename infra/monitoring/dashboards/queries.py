"""The queries of all panels as Prometheus takes them, with Grafana's variables replaced by values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.monitoring.dashboards.all_boards import dashboards

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLE_VALUES = {
    "namespace": "athanor",
    "workload": "digits-training",
    "price": "0",
    "__rate_interval": "2m",
    "__range": "1h",
}
"""Values of all variables in queries, to run them as they are."""

# `$name`, `${name}` and `${name:format}`; Grafana, "Variable syntax".
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::[^}]*)?\})")
# What ends a label's value in PromQL would let a value of one query be read as part of it.
_QUOTED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, kw_only=True)
class Query:
    """One query of a panel."""

    dashboard: str
    """Its uid."""
    panel: str
    """Its title."""
    expr: str
    """PromQL without variables."""


def queries(values: Mapping[str, str] = EXAMPLE_VALUES) -> list[Query]:
    """Return every query of every dashboard.

    Args:
        values: Value of each variable by its name.

    Raises:
        KeyError: a query has a variable that is not in `values`.
    """
    return [
        Query(dashboard=uid, panel=panel["title"], expr=filled(target["expr"], values))
        for uid, board in dashboards().items()
        for panel in panels(board)
        for target in panel["targets"]
    ]


def panels(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a dashboard's panels without the headings of its rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def filled(expr: str, values: Mapping[str, str]) -> str:
    """Return a query with its variables filled in, as strings within quotes and as they are elsewhere.

    Raises:
        KeyError: a variable is not in `values`.
    """

    def value(match: re.Match[str]) -> str:
        return values[match[1] or match[2]].translate(_QUOTED)

    return _VARIABLE.sub(value, expr)
