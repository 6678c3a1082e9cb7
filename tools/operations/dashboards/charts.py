"""Panels as figures of plotly. Source: plotly, "Figure reference"; every figure is checked against its schema."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any, cast

import plotly.io as plotly_io

from tools.operations.dashboards.units import digits, formatted, scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tools.operations.dashboards.answers import PanelAnswer
    from tools.operations.dashboards.prometheus import Series
    from tools.operations.dashboards.units import Scale

Figure = dict[str, Any]

# Told apart on light and dark ground, and by people who do not see red and green apart.
_LINES = ("#3b7dd8", "#e08a1e", "#2a9d8f", "#c8553d", "#8e6bbf", "#6c8f2f", "#d1609c", "#8a8a8a", "#1c9bb8", "#b08d1c")
_SIGNALS = {"green": "#2f9e63", "orange": "#d9822b", "red": "#d64545"}
_FEW_POINTS = 40
_GAP_STEPS = 1.5
_FAR_ABOVE = 2.5
_CHART_PIXELS, _LEGEND_PIXELS = 240, 19
_BAR_PIXELS = 26


def figure_json(figure: Figure) -> str:
    """Return a figure for the page.

    Raises:
        ValueError: plotly knows no such figure.
    """
    return str(cast("Any", plotly_io).to_json(figure, validate=True))


def lines(answer: PanelAnswer, step: int) -> Figure:
    """Return lines over time, with x in milliseconds since 1970."""
    named = [(one.name(series), series) for one in answer.answers for series in one.series]
    size = scale(answer.unit, _values(series for _, series in named))
    stacked = answer.panel["fieldConfig"]["defaults"]["custom"].get("stacking", {}).get("mode") == "normal"
    traces = [_line(name, series, size, step, stacked=stacked) for name, series in named]
    height = _CHART_PIXELS + (_LEGEND_PIXELS * len(traces) if len(traces) > 1 else 0)
    layout = {
        "colorway": list(_LINES),
        "height": height,
        "margin": {"l": 62, "r": 12, "t": 8, "b": 34 + height - _CHART_PIXELS},
        "hovermode": "x unified",
        "showlegend": len(traces) > 1,
        "legend": {"orientation": "v", "x": 0, "xanchor": "left", "y": -34 / (_CHART_PIXELS - 42), "yanchor": "top"},
        "xaxis": {"type": "date"},
        "yaxis": {"ticksuffix": size.suffix, "zeroline": False, **_ends(answer, size)},
        "shapes": [
            _limit_line(value / size.size, colour) for value, colour in _limits(answer) if value <= _near(answer, named)
        ],
    }
    return {"data": traces, "layout": layout}


def number(answer: PanelAnswer) -> Figure:
    """Return one large number: the last one."""
    value = last(answer)
    size = scale(answer.unit, [value])
    scaled = value / size.size
    indicator = {
        "type": "indicator",
        "mode": "number",
        "value": scaled,
        "number": {
            "suffix": size.suffix,
            "valueformat": f",.{digits(scaled, answer.decimals)}f",
            "font": {"size": 34, **_coloured(answer, value)},
        },
    }
    return {"data": [indicator], "layout": {"height": 70, "margin": {"l": 4, "r": 4, "t": 4, "b": 4}}}


def bars(answer: PanelAnswer) -> Figure:
    """Return horizontal bars, the highest on top."""
    named = [(one.name(series), series.points[-1][1]) for one in answer.answers for series in one.series]
    named.sort(key=lambda bar: (not math.isnan(bar[1]), bar[1]))
    size = scale(answer.unit, [value for _, value in named])
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [_finite(value / size.size) for _, value in named],
        # Positions, not names: two series may have the same one.
        "y": list(range(len(named))),
        "text": [html.escape(formatted(answer.unit, value, answer.decimals)) for _, value in named],
        "hovertext": [html.escape(name) for name, _ in named],
        "hoverinfo": "text",
        "textposition": "auto",
        "cliponaxis": False,
        "marker": {"color": [_colour(answer, value) or _LINES[0] for _, value in named]},
    }
    layout = {
        "height": 40 + _BAR_PIXELS * max(3, len(named)),
        "margin": {"l": 10, "r": 40, "t": 4, "b": 30},
        "xaxis": {"ticksuffix": size.suffix, "zeroline": False, **_ends(answer, size)},
        "yaxis": {
            "automargin": True,
            "tickvals": trace["y"],
            "ticktext": [html.escape(name) for name, _ in named],
        },
        "bargap": 0.3,
    }
    return {"data": [trace], "layout": layout}


def is_number(answer: PanelAnswer) -> bool:
    """Return whether the value of a panel of one number is one."""
    return math.isfinite(last(answer))


def last(answer: PanelAnswer) -> float:
    """Return the last value of a panel of one number."""
    return next(series.points[-1][1] for one in answer.answers for series in one.series)


def _line(name: str, series: Series, size: Scale, step: int, *, stacked: bool) -> dict[str, Any]:
    times: list[float] = []
    values: list[float | None] = []
    for time, value in series.points:
        # Prometheus leaves out what is not there; drawn through, a gap would look like a measurement.
        if times and time * 1000 - times[-1] > _GAP_STEPS * step * 1000 and not stacked:
            times.append(times[-1] + step * 1000)
            values.append(None)
        times.append(time * 1000)
        values.append(_finite(value / size.size))
    return {
        "type": "scatter",
        "name": html.escape(name),
        "x": times,
        "y": values,
        "mode": "lines+markers" if len(series.points) <= _FEW_POINTS else "lines",
        "line": {"width": 1.6},
        "marker": {"size": 4},
        "hovertemplate": f"%{{y:.4~g}}{html.escape(size.suffix)}",
        **({"stackgroup": "all"} if stacked else {}),
    }


def _values(series: Iterable[Series]) -> list[float]:
    return [value for each in series for _, value in each.points]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _ends(answer: PanelAnswer, size: Scale) -> dict[str, Any]:
    """Return where an axis begins and ends."""
    defaults = answer.panel["fieldConfig"]["defaults"]
    least, most = defaults.get("min"), defaults.get("max")
    if least is not None and most is not None:
        # a line at the very end would be half as wide
        return {"range": [least / size.size, most * 1.03 / size.size]}
    return {"rangemode": "tozero"} if least == 0 else {}


def _limits(answer: PanelAnswer) -> list[tuple[float, str]]:
    """Return where lines are drawn, and in which colour."""
    steps = _steps(answer)
    rising = len(steps) > 1 and steps[0]["color"] == "green"
    colours = steps[1:] if rising else steps[:-1]
    values = [step["value"] for step in steps[1:]]
    return [(value, _SIGNALS[step["color"]]) for value, step in zip(values, colours, strict=True)]


def _near(answer: PanelAnswer, named: Sequence[tuple[str, Series]]) -> float:
    """Return up to where a limit is drawn: one far above would press the lines down to nothing."""
    most = answer.panel["fieldConfig"]["defaults"].get("max")
    largest = max((value for value in _values(series for _, series in named) if math.isfinite(value)), default=0.0)
    return most if most is not None else _FAR_ABOVE * largest


def _limit_line(value: float, colour: str) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": value,
        "y1": value,
        "line": {"color": colour, "width": 1, "dash": "dash"},
    }


def _coloured(answer: PanelAnswer, value: float) -> dict[str, str]:
    colour = _colour(answer, value)
    return {"color": colour} if colour else {}


def _colour(answer: PanelAnswer, value: float) -> str | None:
    """Return the colour for a value, good or bad; None where nothing defines it."""
    steps = _steps(answer)
    if len(steps) == 1:
        return None
    reached = [step for step in steps if step["value"] is None or value >= step["value"]]
    return _SIGNALS[reached[-1]["color"]]


def _steps(answer: PanelAnswer) -> Sequence[Mapping[str, Any]]:
    return answer.panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
