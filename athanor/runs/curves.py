"""`athanor curves`: the metrics that runs print, as one self-contained HTML page without scripts.

The names of metrics come from programs, so all text is escaped, and the page forbids the browser to load anything.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from athanor.runs.series import Series, losses_first
from athanor.runs.svg import Axis, path, ticks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COLOURS = ("#2f6fde", "#d9480f", "#2b8a3e", "#ae3ec9", "#b58900", "#0b7285", "#c2255c", "#5c677d")
"""Colours of the runs' lines, readable on white and on black."""
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 760, 260, 64, 26, 8
_SLACK = 0.05
"""Share of the values' range, above and below the lines."""
_SMALLEST_RANGE = 1e-300
"""Below, its parts would be 0."""
_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 800px; margin: 2em auto; padding: 0 1em; }
svg { width: 100%; height: auto; }
.grid { stroke: currentColor; stroke-opacity: .15; }
text { font-size: 12px; fill: currentColor; fill-opacity: .7; }
.line { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .1em 1.2em .1em 0; text-align: left; }
"""


def page(runs: Mapping[str, Series]) -> str:
    """Return the HTML of some runs' curves, over the steps that they have made.

    Args:
        runs: By name, at most as many as there are COLOURS, each with points.
    """
    names = losses_first({name for series in runs.values() for name in series.names()})
    title = escape(", ".join(runs))
    charts = "".join(_section(name, runs) for name in names)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
{charts}</body>
</html>
"""


def fields(run: str, series: Series) -> dict[str, Any]:
    """Return the object that --json prints for a run; times in RFC 3339."""
    points = [
        {"step": each.step, "at": each.at.isoformat() if each.at else None, "values": dict(each.values)}
        for each in series.points
    ]
    return {"run": run, "total_steps": series.total_steps, "points": points}


def _section(name: str, runs: Mapping[str, Series]) -> str:
    with_name = {run: series for run, series in runs.items() if series.values(name)}
    colours = {run: COLOURS[place] for place, run in enumerate(runs)}
    rows = "".join(_row(run, series.values(name), colours[run]) for run, series in with_name.items())
    return f"""<section>
<h2>{escape(name)}</h2>
{_chart(name, with_name, colours)}
<table>
<tr><th>run</th><th>latest</th><th>lowest</th><th>highest</th></tr>
{rows}</table>
</section>
"""


def _row(run: str, values: Sequence[float], colour: str) -> str:
    cells = "".join(f"<td>{value:.4g}</td>" for value in (values[-1], min(values), max(values)))
    return f'<tr><td><span style="color: {colour}">■</span> {escape(run)}</td>{cells}</tr>\n'


def _chart(name: str, runs: Mapping[str, Series], colours: Mapping[str, str]) -> str:
    across, up = _axes(name, runs)
    lines = "".join(_line(name, series, colours[run], (across, up)) for run, series in runs.items())
    label = escape(f"{name} by step of {', '.join(runs)}")
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{_grid(across, up)}{lines}</svg>'


def _axes(name: str, runs: Mapping[str, Series]) -> tuple[Axis, Axis]:
    """Return the axes of a chart, from the first to the last step that has the number, and around its values."""
    steps = [each.step for series in runs.values() for each in series.points if name in each.values]
    values = [value for series in runs.values() for value in series.values(name)]
    first, last = _range(min(steps), max(steps), 0)
    low, high = _range(min(values), max(values), _SLACK)
    return (
        Axis(low=first, high=last, start=_LEFT, end=_WIDTH - 8),
        Axis(low=low, high=high, start=_HEIGHT - _BOTTOM, end=_TOP),
    )


def _range(low: float, high: float, slack: float) -> tuple[float, float]:
    """Return the ends of an axis; around one value alone they are as far away as it is from 0."""
    if high - low > _SMALLEST_RANGE:
        margin = (high - low) * slack
        return (low - margin, high + margin)
    away = abs(low) if abs(low) > _SMALLEST_RANGE else 1.0
    return (low - away, high + away)


def _grid(across: Axis, up: Axis) -> str:
    rows = [
        f'<path class="grid" d="M{across.start:.1f} {up.at(tick):.1f}H{across.end:.1f}"/>'
        f'<text text-anchor="end" x="{across.start - 6:.1f}" y="{up.at(tick) + 4:.1f}">{tick:g}</text>'
        for tick in ticks(up.low, up.high)
    ]
    columns = [
        f'<text text-anchor="middle" x="{across.at(tick):.1f}" y="{up.start + 18:.1f}">{tick:g}</text>'
        for tick in ticks(across.low, across.high)
    ]
    return "".join([*rows, *columns])


def _line(name: str, series: Series, colour: str, axes: tuple[Axis, Axis]) -> str:
    """Return a run's line, with a dot at its latest value: a line of one point cannot be seen."""
    across, up = axes
    last = next(each for each in reversed(series.points) if name in each.values)
    dot = f'<circle fill="{colour}" r="3" cx="{across.at(last.step):.1f}" cy="{up.at(last.values[name]):.1f}"/>'
    return f'<path class="line" stroke="{colour}" d="{path(_points(name, series), across, up)}"/>{dot}'


def _points(name: str, series: Series) -> Iterator[tuple[float, float | None]]:
    """Yield a number by step, with a gap where a run went back to an earlier step, as after a restart."""
    before = None
    for each in series.points:
        if name not in each.values:
            continue
        if before is not None and each.step < before:
            yield each.step, None
        yield each.step, each.values[name]
        before = each.step
