"""Prometheus' answers to the queries of a dashboard's panels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.monitoring.dashboards.queries import filled, panels
from tools.operations.dashboards.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.operations.dashboards.prometheus import Prometheus, Series, Window

# `{{label}}`; Grafana, Prometheus data source, "Legend".
_LABEL = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One query of a panel and what came of it."""

    expr: str
    legend: str
    """Template of the names of its series."""
    series: Sequence[Series] = ()
    error: str = ""

    def name(self, series: Series) -> str:
        """Return the name of a series."""
        named = _LABEL.sub(lambda match: series.labels.get(match[1], ""), self.legend).strip()
        return named or ", ".join(f"{label}={value}" for label, value in sorted(series.labels.items()))


@dataclass(frozen=True, kw_only=True)
class PanelAnswer:
    """A panel and what came of its queries."""

    panel: Mapping[str, Any]
    """Grafana's JSON."""
    answers: Sequence[Answer]

    @property
    def title(self) -> str:
        """Its title."""
        return self.panel["title"]

    @property
    def errors(self) -> list[Answer]:
        """The queries that failed."""
        return [answer for answer in self.answers if answer.error]

    @property
    def has_data(self) -> bool:
        """Whether a query yielded something."""
        return any(answer.series for answer in self.answers)

    @property
    def unit(self) -> str:
        """Its unit, one of Grafana's."""
        return self.panel["fieldConfig"]["defaults"]["unit"]

    @property
    def decimals(self) -> int | None:
        """Number of digits after the point; None for any."""
        return self.panel["fieldConfig"]["defaults"].get("decimals")


def ask(
    prometheus: Prometheus, board: Mapping[str, Any], values: Mapping[str, str], window: Window
) -> dict[int, PanelAnswer]:
    """Return the results of each panel's queries, by the panel's id.

    Raises:
        PrometheusError: it does not answer at all.
    """
    return {
        panel["id"]: PanelAnswer(
            panel=panel, answers=[_asked(prometheus, target, values, window) for target in panel["targets"]]
        )
        for panel in panels(board)
    }


def _asked(prometheus: Prometheus, target: Mapping[str, Any], values: Mapping[str, str], window: Window) -> Answer:
    expr, legend = filled(target["expr"], values), target["legendFormat"]
    try:
        series = prometheus.at(expr, window.end) if target["instant"] else prometheus.over(expr, window)
    except QueryError as error:
        return Answer(expr=expr, legend=legend, error=str(error))
    return Answer(expr=expr, legend=legend, series=series)
