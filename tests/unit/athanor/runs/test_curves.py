"""One page of curves, which a browser shows without anything else."""

from __future__ import annotations

import argparse
import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from athanor.runs import questions
from athanor.runs.curves import COLOURS, fields, page
from athanor.runs.series import read_series
from infra.errors import RefusalError


def series(*points: dict):
    return read_series("\n".join(json.dumps(point) for point in points))


def falling(steps: range):
    return series(*({"step": step, "loss": 1 / step, "lr": 0.1} for step in steps))


class Reader(HTMLParser):
    """Checks that every element is closed; collects what the page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onload", "onclick"}
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, _):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def paths(text: str) -> list[str]:
    return re.findall(r'class="line" stroke="[^"]+" d="([^"]*)"', text)


def test_a_page_has_a_chart_for_each_number_with_the_losses_first():
    text = page({"first": falling(range(1, 4)), "second": falling(range(2, 6))})
    assert re.findall("<h2>(.*)</h2>", text) == ["loss", "lr"]
    assert [len(re.findall("[ML]", line)) for line in paths(text)] == [3, 4, 3, 4]
    assert COLOURS[1] in text
    assert "<td>0.2</td><td>0.2</td><td>0.5</td>" in text
    assert {"script", "link", "img", "iframe"}.isdisjoint(Reader(text).tags)


def test_the_axis_begins_and_ends_with_the_steps_of_the_runs():
    [line] = paths(page({"late": series({"step": 1000, "loss": 2.0}, {"step": 1100, "loss": 1.0})}))
    assert re.fullmatch(r"M64\.0 [0-9.]+L752\.0 [0-9.]+", line)


def test_a_restart_is_a_gap():
    [line] = paths(page({"run": series(*({"step": step, "loss": 1.0 / step} for step in (1, 2, 1, 2, 3)))}))
    assert re.sub("[0-9. ]", "", line) == "MLMLL"


def test_a_name_is_text():
    text = page({"run": series({"step": 1, "<script>alert(1)</script>": 2.0})})
    assert "script" not in Reader(text).tags
    assert "<script>alert(1)</script>" in Reader(text).texts


@given(
    st.lists(
        st.fixed_dictionaries({"step": st.integers(), "loss": st.floats(allow_nan=False, allow_infinity=False)}),
        min_size=1,
    )
)
@example([{"step": 1, "loss": 5e-324}, {"step": 2, "loss": 1e-323}])
@example([{"step": 10**400, "loss": 1.0}])
def test_any_numbers_can_be_drawn(points):
    drawn = series(*points)
    if drawn.points:
        for line in paths(page({"run": drawn})):
            assert re.fullmatch(r"(?:[ML][0-9.]+ [0-9.]+)+", line)


def test_json_has_every_point():
    [first, *_] = fields("run", series({"step": 1, "loss": 2.0, "total_steps": 9}))["points"]
    assert first["step"] == 1
    assert first["values"]["loss"] == 2.0
    assert fields("run", series({"step": 1, "loss": 2.0, "total_steps": 9}))["total_steps"] == 9


def curves(monkeypatch, tmp_path, printed, *, as_json=False, runs=("a",)) -> str:
    monkeypatch.setattr(questions, "locate_to_read", lambda cluster, run: (cluster, run))
    monkeypatch.setattr(questions, "whole_series", lambda *_: printed)
    output = tmp_path / "page.html"
    arguments = argparse.Namespace(runs=list(runs), json=as_json, output=str(output))
    assert questions._QUESTIONS["curves"](arguments, None) == 0
    return output.read_text(encoding="utf-8") if output.exists() else ""


def test_the_page_is_written_and_named(monkeypatch, tmp_path, capsys):
    assert "<h1>a, b</h1>" in curves(monkeypatch, tmp_path, falling(range(1, 4)), runs=("a", "b"))
    assert capsys.readouterr().out == f"{tmp_path}/page.html\n"


def test_json_writes_no_page(monkeypatch, tmp_path, capsys):
    assert curves(monkeypatch, tmp_path, falling(range(1, 4)), as_json=True) == ""
    assert len(json.loads(capsys.readouterr().out)["points"]) == 3


def test_what_cannot_be_drawn_is_refused(monkeypatch, tmp_path):
    with pytest.raises(RefusalError, match="run = 'a': has printed no lines of JSON with a step"):
        curves(monkeypatch, tmp_path, read_series("begun\n"))
    with pytest.raises(RefusalError, match="RUN = 9: a page shows at most 8 runs"):
        curves(monkeypatch, tmp_path, falling(range(1, 4)), runs=[str(number) for number in range(9)])
