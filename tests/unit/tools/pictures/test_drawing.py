"""What `make pictures` draws: curves, numbers and lines of a terminal."""

import re
import xml.etree.ElementTree as ET

import pytest

from athanor.runs.svg import ticks
from infra.monitoring.dashboards import dashboards
from infra.monitoring.dashboards.queries import panels
from tests.tables import each_row
from tests.unit.tools.operations.dashboards import hostile
from tests.unit.tools.operations.dashboards.fake_prometheus import FakePrometheus, serving
from tools.operations.dashboards.commands import View, draw
from tools.operations.dashboards.prometheus import Prometheus
from tools.pictures.board_svg import CURVES, NUMBERS, Area, board_svg, chart, legend
from tools.pictures.commands import end_of_output, terminal_svg

NOW = 1_800_000_000.0
BOLD, GREEN, PLAIN = "\x1b[1m", "\x1b[32m", "\x1b[0m"


def _page(answer):
    with serving(FakePrometheus(answer=answer)) as fake:
        pages = draw(Prometheus(fake.address), View(), NOW)
    return next(page for page in pages if page.board["uid"] == "athanor-job")


def _every_answer(query: str) -> list:
    if "test_accuracy" in query:
        return [({}, lambda _: 0.99)]
    return [] if "volcano_pod_preemption_victims" in query else hostile.answer(query)


def test_the_dashboard_shows_its_panels_and_no_label_becomes_markup():
    svg = board_svg(_page(_every_answer))
    root = ET.fromstring(svg)
    words = [text.strip() for text in root.itertext() if text.strip()]
    assert {*NUMBERS, *CURVES} <= set(words)
    assert any(hostile.SCRIPT in word for word in words)
    assert not [element for element in root.iter() if element.tag.endswith(("script", "img"))]


def test_its_panels_are_on_the_dashboard():
    kinds = {panel["title"]: panel["type"] for panel in panels(dashboards()["athanor-job"])}
    assert [kinds[title] for title in (*NUMBERS, *CURVES)] == ["stat"] * len(NUMBERS) + ["timeseries"] * len(CURVES)


def test_a_job_without_data_is_not_drawn():
    with pytest.raises(ValueError, match=r"no data for Test accuracy\. Fix: train"):
        board_svg(_page(hostile.answer))


@each_row(
    ("low", "high", "values"),
    [
        (0, 1.03, [0, 0.25, 0.5, 0.75, 1]),
        (0, 130, [0, 50, 100]),
        (0, 940, [0, 200, 400, 600, 800]),
        (0, 0.003, [0, 0.001, 0.002, 0.003]),
    ],
)
def test_ticks_are_round_values(low, high, values):
    assert ticks(low, high) == pytest.approx(values)


def _figure(*lines: tuple[str, list[float | None]]) -> dict:
    traces = [{"name": name, "x": [0, 1000, 2000], "y": values} for name, values in lines]
    return {"data": traces, "layout": {"yaxis": {"ticksuffix": " s", "range": [0, 10]}}}


def test_a_line_goes_from_corner_to_corner_and_stops_at_a_gap():
    svg = chart(_figure(("a", [0.0, None, 10.0])), Area(x=0, y=0, width=152, height=128), 0, 2)
    (path,) = re.findall(r'class="line line0" d="([^"]+)"', svg)
    assert path == "M52.0 106.0M152.0 6.0"
    assert ">10 s<" in svg


def test_one_line_needs_no_name_and_two_do():
    assert legend(_figure(("a", [1.0]))) == ""
    assert re.findall(r">([^<]+)<", legend(_figure(("a&amp;b", [1.0]), ("c", [2.0])))) == ["a&amp;b", "c"]


PRINTED = f"/home/me/athanor\n{BOLD}Result{PLAIN}   \n\n  state   {GREEN}healthy{PLAIN}  \n"


def test_a_picture_of_a_terminal_begins_at_a_heading():
    lines = end_of_output(PRINTED, "Result")
    assert [line.plain for line in lines] == ["Result", "", "  state   healthy"]
    with pytest.raises(ValueError, match="no line 'Jobs'"):
        end_of_output(PRINTED, "Jobs")


def test_a_terminal_keeps_colours_and_loads_no_font():
    svg = terminal_svg("make up", end_of_output(PRINTED, "Result"))
    ET.fromstring(svg)
    assert "healthy" in svg
    assert len(set(re.findall(r"fill: (#\w+)", svg))) > 1
    assert "font-face" not in svg
    assert "https:" not in svg
    assert "/home/me" not in svg
