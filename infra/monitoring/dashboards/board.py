"""A dashboard as a whole: its rows of panels, variables, links, and the JSON that Grafana reads."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from infra.monitoring.dashboards.panels import DATASOURCE, panel_id
from infra.monitoring.logs import NAMESPACE_FIELD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.monitoring.dashboards.panels import Panel

TAG = "athanor"
TIME_RANGE = ("now-6h", "now")
REFRESH = "30s"
_EVERY_LOG_DAY = "30d"


@dataclass(frozen=True, kw_only=True)
class Section:
    """Panels under one heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A variable whose values are those of a label."""

    name: str
    label: str
    """Displayed name."""
    series: str
    """PromQL selector of the series that have the label."""
    of: str
    """The label."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A variable that people type."""

    name: str
    label: str
    """Displayed name."""
    value: str
    """Initial value."""
    about: str


LOGS = Entry(
    name="logs",
    label="Log store",
    value="http://localhost:9428",
    about="Address of VictoriaLogs for your browser: kubectl -n monitoring port-forward svc/victoria-logs 9428",
)
RUNBOOKS = Entry(
    name="runbooks",
    label="Runbooks",
    value="http://localhost:8080/docs/runbooks",
    about="Address of this repository's docs/runbooks for your browser: its page on your git host, or python "
    "-m http.server 8080",
)


@dataclass(frozen=True, kw_only=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    about: str
    sections: Sequence[Section]
    choices: Sequence[Choice] = ()
    entries: Sequence[Entry] = (RUNBOOKS,)
    links: Sequence[builders.DashboardLink] = ()
    time_range: tuple[str, str] = TIME_RANGE


def board_json(board: Board, values: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON that Grafana reads. The same board gives the same JSON.

    Args:
        board: The dashboard.
        values: The initial values of the variables that people type, by name, instead of what the entries say.
    """
    entries = [replace(entry, value=values.get(entry.name, entry.value)) for entry in board.entries]
    built = (
        builders.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags([TAG])
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .time(*board.time_range)
        .refresh(REFRESH)
        .variables([_datasource(), *map(_choice, board.choices), *map(_entry, entries)])
        .links([*board.links, _runbooks_link(), _others_link()])
        .readonly()
    )
    for section in board.sections:
        built.with_row(builders.Row(section.title).id(panel_id(f"row {section.title}")))
        for panel in section.panels:
            built.with_panel(panel)
    return cast("dict[str, Any]", json.loads(json.dumps(built.build(), cls=JSONEncoder, sort_keys=True)))


def logs_link(title: str, field: str, variable: str) -> builders.DashboardLink:
    """Return the link to the log lines whose `field` is the value of a variable.

    Format: VictoriaLogs' vmui, and LogsQL's filters of fields and time.
    """
    query = (
        quote(f'"{NAMESPACE_FIELD}":="')
        + "${namespace:percentencode}"
        + quote(f'" "{field}":="')
        + f"${{{variable}:percentencode}}"
        + quote('" _time:[')
        + "${__from:date:iso}"
        + quote(", ")
        + "${__to:date:iso}"
        + quote("]")
    )
    # The query holds the time range: the page's own, which it takes together with it, must not cut that.
    page = f"${{{LOGS.name}}}/select/vmui/#/?g0.range_input={_EVERY_LOG_DAY}&g0.relative_time=none&query={query}"
    return _link(title, page).icon("doc").tooltip("Log lines of all its pods, including deleted ones")


def _runbooks_link() -> builders.DashboardLink:
    return _link("Runbooks", f"${{{RUNBOOKS.name}}}").icon("info").tooltip("What to do about an alert")


def _others_link() -> builders.DashboardLink:
    return builders.DashboardLink("Dashboards").type(DashboardLinkType.DASHBOARDS).tags([TAG]).keep_time(keep_time=True)


def _link(title: str, url: str) -> builders.DashboardLink:
    return builders.DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank(target_blank=True)


def _datasource() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def _choice(choice: Choice) -> builders.QueryVariable:
    return (
        builders.QueryVariable(choice.name)
        .label(choice.label)
        .datasource(DATASOURCE)
        .query(f"label_values({choice.series}, {choice.of})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )


def _entry(entry: Entry) -> builders.TextBoxVariable:
    return (
        builders.TextBoxVariable(entry.name)
        .label(entry.label)
        .description(entry.about)
        .default_value(entry.value)
        .current(VariableOption(text=entry.value, value=entry.value))
        .hide(VariableHide.DONT_HIDE)
    )
