"""Figures: what is drawn, and with which colour."""

import json
import re

import pytest

from infra.monitoring.dashboards.board import Board, Section, board_json
from infra.monitoring.dashboards.panels import BEGIN, END, Limits, Look, Text, bars, number, over_time, periods, rows
from infra.monitoring.dashboards.queries import panels
from tests.tables import each_row
from tools.operations.dashboards import charts, panel_html
from tools.operations.dashboards.answers import Answer, PanelAnswer
from tools.operations.dashboards.prometheus import Series

TEXT = Text(asks="Why?", when_bad="Look.")
STEP = 10


def _answer(panel, *series: tuple[dict[str, str], list[tuple[float, float]]], error: str = "") -> PanelAnswer:
    answered = [Series(labels=labels, points=points) for labels, points in series]
    return PanelAnswer(panel=_json(panel), answers=[Answer(expr="up", legend="{{pod}}", series=answered, error=error)])


def _json(panel) -> dict:
    board = Board(uid="u", title="t", about="a", sections=[Section(title="s", panels=[panel])])
    return panels(board_json(board, {}))[0]


def test_lines_have_a_common_unit():
    panel = over_time("Time", {"{{pod}}": "up"}, TEXT, Look(unit="s"))
    figure = charts.lines(_answer(panel, ({"pod": "a"}, [(0, 0.002)]), ({"pod": "b"}, [(0, 0.5)])), STEP)
    assert [trace["y"] for trace in figure["data"]] == [[2], [500]]
    assert figure["layout"]["yaxis"]["ticksuffix"] == " ms"
    assert [trace["name"] for trace in figure["data"]] == ["a", "b"]


def test_a_line_is_interrupted_where_there_was_nothing():
    points = [(0.0, 1.0), (10.0, 1.0), (60.0, 1.0)]
    figure = charts.lines(_answer(over_time("Up", {"{{pod}}": "up"}, TEXT), ({}, points)), STEP)
    assert figure["data"][0]["x"] == [0, 10_000, 20_000, 60_000]
    assert figure["data"][0]["y"] == [1, 1, None, 1]


def test_a_single_point_is_seen():
    figure = charts.lines(_answer(over_time("Up", {"{{pod}}": "up"}, TEXT), ({}, [(0, 1)])), STEP)
    assert figure["data"][0]["mode"] == "lines+markers"


def test_stacked_lines_lie_on_each_other():
    panel = over_time("Up", {"{{pod}}": "up"}, TEXT, Look(stacked=True))
    figure = charts.lines(_answer(panel, ({}, [(0, 1)]), ({}, [(0, 1)])), STEP)
    assert {trace["stackgroup"] for trace in figure["data"]} == {"all"}


@each_row(
    ("value", "limits", "drawn"),
    [
        (80.0, Limits(doubtful=83, bad=88), [(83, "#d9822b"), (88, "#d64545")]),
        (80.0, Limits(doubtful=100, bad=300), [(100, "#d9822b")]),
        (4.0, Limits(doubtful=3, bad=1), [(1, "#d64545"), (3, "#d9822b")]),
    ],
)
def test_limits_are_drawn_where_they_do_not_hide_the_lines(value, limits, drawn):
    panel = over_time("Up", {"{{pod}}": "up"}, TEXT, Look(unit="none", limits=limits))
    shapes = charts.lines(_answer(panel, ({}, [(0, value)])), STEP)["layout"]["shapes"]
    assert [(shape["y0"], shape["line"]["color"]) for shape in shapes] == drawn


@each_row(("value", "colour"), [(0.0, "#2f9e63"), (1.0, "#d9822b"), (5.0, "#d64545"), (7.0, "#d64545")])
def test_a_number_has_the_colour_of_its_limit(value, colour):
    panel = number("Failures", "sum(up)", TEXT, Look(limits=Limits(doubtful=1, bad=5)))
    (indicator,) = charts.number(_answer(panel, ({}, [(0, value)])))["data"]
    assert indicator["number"]["font"]["color"] == colour
    assert indicator["value"] == value


def test_a_number_is_the_last_one():
    panel = number("Loss", "avg(up)", TEXT, Look(unit="s", last_known=True))
    (indicator,) = charts.number(_answer(panel, ({}, [(0, 1), (10, 0.5)])))["data"]
    assert (indicator["value"], indicator["number"]["suffix"]) == (500, " ms")


def test_a_number_that_is_none_is_said_to_be_none():
    panel = number("Loss", "avg(up)", TEXT)
    assert "not a number" in panel_html.panel(_answer(panel, ({}, [(0, float("nan"))])), STEP)


def test_bars_of_equal_names_stay_apart_and_the_highest_is_on_top():
    panel = bars("Hours", {"{{pod}}": "up"}, TEXT, Look(unit="none", decimals=1))
    answer = _answer(panel, ({"pod": "a"}, [(0, 3)]), ({"pod": "a"}, [(0, float("nan"))]), ({"pod": "b"}, [(0, 1)]))
    figure = charts.bars(answer)
    (trace,) = figure["data"]
    assert trace["x"] == [None, 1, 3]
    assert trace["text"] == ["nan", "1.0", "3.0"]
    assert figure["layout"]["yaxis"]["ticktext"] == ["a", "b", "a"]


def test_plotly_knows_every_part_of_the_figures():
    series = ({"pod": "<b>"}, [(0.0, 1.0), (10.0, 2.0)])
    limited = Look(limits=Limits(doubtful=1, bad=2), most=3)
    for figure in (
        charts.lines(_answer(over_time("a", {"{{pod}}": "up"}, TEXT, limited), series, series), STEP),
        charts.bars(_answer(bars("b", {"{{pod}}": "up"}, TEXT, limited), series)),
        charts.number(_answer(number("c", "up", TEXT, limited), series)),
    ):
        assert json.loads(charts.figure_json(figure))["data"]
    with pytest.raises(ValueError, match="colour"):
        charts.figure_json({"data": [{"type": "bar", "colour": "red"}], "layout": {}})


def test_a_table_has_the_columns_that_were_named_and_the_highest_row_first():
    panel = rows("Waits", "up", {"pod": "which", "Value": "for"}, TEXT, Look(unit="s"))
    answer = _answer(panel, ({"pod": "a", "uid": "secret"}, [(0, 5)]), ({"pod": "b"}, [(0, 60)]), ({}, [(0, 1)]))
    html = panel_html.panel(answer, STEP)
    assert "<th>which</th>" in html
    assert html.index("<td>b</td>") < html.index("<td>a</td>") < html.index("<td></td>")
    assert '<td class="number">1 min</td>' in html
    assert "secret" not in html


def test_a_table_of_periods_has_a_row_for_each_run_and_the_latest_first():
    panel = periods("Runs", ("began", "ended"), {"run": "run", BEGIN: "from", END: "to"}, TEXT, "/d/job")
    starts = [Series(labels={"run": run}, points=[(0, time)]) for run, time in (("old", 0), ("new", 7_200_000))]
    ends = [Series(labels={"run": run}, points=[(0, time)]) for run, time in (("old", 60_000), ("new", 7_260_000))]
    answers = [Answer(expr="began", legend="", series=starts), Answer(expr="ended", legend="", series=ends)]
    html = panel_html.panel(PanelAnswer(panel=_json(panel), answers=answers), STEP)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", html)
    assert cells == [
        *("new", "1970-01-01 02:00:00 UTC", "1970-01-01 02:01:00 UTC"),
        *("old", "1970-01-01 00:00:00 UTC", "1970-01-01 00:01:00 UTC"),
    ]


def test_a_series_without_a_legend_is_named_by_its_labels():
    answer = Answer(expr="up", legend="{{pod}}")
    assert answer.name(Series(labels={"b": "2", "a": "1"}, points=[])) == "a=1, b=2"


def test_a_kind_of_panel_that_nothing_draws_is_an_error():
    answer = _answer(over_time("Up", {"{{pod}}": "up"}, TEXT), ({}, [(0, 1)]))
    unknown = PanelAnswer(panel={**answer.panel, "type": "piechart"}, answers=answer.answers)
    with pytest.raises(ValueError, match=r"piechart.*Fix"):
        panel_html.panel(unknown, STEP)
