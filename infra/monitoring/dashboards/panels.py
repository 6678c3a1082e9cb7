"""Panels, each created by one call: the common part of all panels, so that a dashboard states only differences.

A panel's description states the question that it answers, and what to do when it looks bad.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueColorMode,
    BigValueGraphMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
BEGIN, END = "Value #A", "Value #B"
"""Names that Grafana gives to the values of a table's two queries."""
GOOD, DOUBTFUL, BAD = "green", "orange", "red"

Panel = timeseries.Panel | stat.Panel | table.Panel | bargauge.Panel


@dataclass(frozen=True, kw_only=True)
class Text:
    """The text of a panel's description."""

    asks: str
    """The question that the panel answers."""
    when_bad: str
    """Advice for when it looks bad."""

    def __str__(self) -> str:
        return f"{self.asks}\n\nWhen it looks bad: {self.when_bad}"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Thresholds of warning and bad values; the bad one may be the lower of the two."""

    doubtful: float
    bad: float


@dataclass(frozen=True, kw_only=True)
class Look:
    """The display of values."""

    unit: str = units.Short
    limits: Limits | None = None
    least: float | None = 0
    """Lower end of the axis; None follows the values."""
    most: float | None = None
    """Upper end of the axis; None follows the values."""
    decimals: int | None = None
    stacked: bool = False
    last_known: bool = False
    """Whether one number is the last one of the time range, where there is none now: that of a job that has ended."""
    width: int | None = None
    """Width in 24ths of a row; None takes what is usual for the kind of panel."""


PLAIN = Look()
RATIO = Look(unit=units.PercentUnit, most=1)
ONE_RATIO = Look(unit=units.PercentUnit, most=1, decimals=1)
"""Unit for panels of one number, which Grafana would round to whole percents: 99.7 % to 100 %."""


def panel_id(title: str) -> int:
    """Return an id that stays when panels are added or moved, for links to a panel hold it. Titles are unique."""
    return zlib.crc32(title.encode()) % 1_000_000 + 1


def over_time(title: str, lines: Mapping[str, str], text: Text, look: Look = PLAIN) -> Panel:
    """Return lines over time.

    Args:
        title: Unique within the dashboard.
        lines: Legend, with labels such as `{{pod}}` -> PromQL.
        text: What it is for.
        look: How it looks.
    """
    panel = (
        timeseries.Panel()
        .legend(_legend())
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
        .line_width(1)
        .fill_opacity(30 if look.stacked else 5)
        .color_scheme(builders.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    )
    if look.stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    if look.limits:
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    queries = [_query(expr, legend).range() for legend, expr in lines.items()]
    return _panel(panel, title, queries, text, look, height=8, width=12)


def number(title: str, expr: str, text: Text, look: Look = PLAIN) -> Panel:
    """Return one number, as of now unless `look` wants the last known one."""
    panel = (
        stat.Panel()
        .reduce_options(_latest())
        .graph_mode(BigValueGraphMode.NONE)
        .color_mode(BigValueColorMode.VALUE)
        .color_scheme(builders.FieldColor().mode(FieldColorModeId.THRESHOLDS))
    )
    query = _query(expr, title)
    return _panel(panel, title, [query.range() if look.last_known else query.instant()], text, look, height=4, width=4)


def bars(title: str, lines: Mapping[str, str], text: Text, look: Look = PLAIN) -> Panel:
    """Return bars, one a series, as of now. Arguments: those of `over_time`."""
    panel = (
        bargauge.Panel()
        .reduce_options(_latest())
        .orientation(VizOrientation.HORIZONTAL)
        .display_mode(BarGaugeDisplayMode.BASIC)
        .color_scheme(builders.FieldColor().mode(FieldColorModeId.THRESHOLDS))
    )
    queries = [_query(expr, legend).instant() for legend, expr in lines.items()]
    return _panel(panel, title, queries, text, look, height=8, width=12)


def rows(title: str, expr: str, columns: Mapping[str, str], text: Text, look: Look = PLAIN) -> Panel:
    """Return a table, one row a series, as of now.

    Args:
        title: Unique within the dashboard.
        expr: PromQL.
        columns: Label -> heading, in order; `Value` is the series' value. Other labels are not shown.
        text: What it is for.
        look: How the values look.
    """
    panel = _columns(table.Panel(), columns)
    return _panel(panel, title, [_rows_query(expr)], text, look, height=8, width=12)


def periods(title: str, ends: tuple[str, str], columns: Mapping[str, str], text: Text, url: str) -> Panel:
    """Return a table of periods, the latest first; a click on one opens a page.

    Args:
        title: Unique within the dashboard.
        ends: PromQL of where the periods begin and where they end, in milliseconds since 1970, with equal labels.
        columns: Label -> heading, in order; `BEGIN` and `END` are the ends.
        text: What it is for.
        url: The page, with Grafana's variables of data links, such as `${__data.fields["Value #A"].numeric}`.
    """
    latest_first = common.TableSortByFieldState().display_name(columns[END]).desc(desc=True)
    panel = _columns(table.Panel(), columns, merge=True).sort_by([latest_first])
    panel.data_links([builders.DashboardLink("Open").url(url)])
    queries = [_rows_query(expr) for expr in ends]
    look = Look(unit=units.DatetimeISO, least=None, width=24)
    return _panel(panel, title, queries, text, look, height=6, width=24)


def _panel(  # noqa: PLR0913 - what all kinds have in common; called only by the functions above
    panel: Panel,
    title: str,
    queries: list[prometheus.Dataquery],
    text: Text,
    look: Look,
    *,
    height: int,
    width: int,
) -> Panel:
    for index, query in enumerate(queries):
        panel.with_target(query.ref_id(chr(ord("A") + index)))
    panel.id(panel_id(title)).title(title).description(str(text)).datasource(DATASOURCE)
    panel.height(height).span(look.width or width).unit(look.unit).thresholds(_thresholds(look.limits))
    panel.no_value("no data")
    if look.least is not None:
        panel.min(look.least)
    if look.most is not None:
        panel.max(look.most)
    if look.decimals is not None:
        panel.decimals(look.decimals)
    return panel


def _columns(panel: table.Panel, columns: Mapping[str, str], *, merge: bool = False) -> table.Panel:
    """Return the table with these columns alone, and with one row for equal labels of several queries if they merge."""
    order = {label: index for index, label in enumerate(columns)}
    panel.show_header(show_header=True).filterable(filterable=True)
    panel.with_transformation(_transformation("filterFieldsByName", {"include": {"names": list(columns)}}))
    if merge:
        panel.with_transformation(_transformation("merge", {}))
    return panel.with_transformation(_transformation("organize", {"indexByName": order, "renameByName": dict(columns)}))


def _rows_query(expr: str) -> prometheus.Dataquery:
    return _query(expr, "").instant().format(PromQueryFormat.TABLE)


def _query(expr: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).legend_format(legend).datasource(DATASOURCE)


def _latest() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"])


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.TABLE)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(show_legend=True)
        .calcs(["lastNotNull", "max"])
    )


def _transformation(name: str, options: dict[str, object]) -> DataTransformerConfig:
    return DataTransformerConfig(id_val=name, options=options)


def _thresholds(limits: Limits | None) -> builders.ThresholdsConfig:
    """Return the colours; the first one has no lower end, which Grafana writes as null."""
    if limits is None:
        colours = [Threshold(color=GOOD)]
    elif limits.bad >= limits.doubtful:
        colours = [
            Threshold(color=GOOD),
            Threshold(color=DOUBTFUL, value=limits.doubtful),
            Threshold(color=BAD, value=limits.bad),
        ]
    else:
        colours = [
            Threshold(color=BAD),
            Threshold(color=DOUBTFUL, value=limits.bad),
            Threshold(color=GOOD, value=limits.doubtful),
        ]
    return builders.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(colours)
