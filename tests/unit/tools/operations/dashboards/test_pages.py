"""Pages from the answers of a Prometheus: everything is shown, nothing is taken for markup."""

import json
import re
from html.parser import HTMLParser

import pytest

from infra.monitoring.dashboards import dashboards
from infra.monitoring.dashboards.queries import panels
from tests.unit.tools.operations.dashboards import hostile
from tests.unit.tools.operations.dashboards.fake_prometheus import FakePrometheus, serving
from tools.operations.dashboards import panel_html
from tools.operations.dashboards.commands import View, draw
from tools.operations.dashboards.page import board_page, index_page, link_url
from tools.operations.dashboards.prometheus import Prometheus, Window

NOW = 1_800_000_000.0
REFUSED, EMPTY = "Preemption victims", "Test accuracy"


class _Elements(HTMLParser):
    """The elements of a page, and the text of those that hold figures."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.opened: list[tuple[str, dict[str, str | None]]] = []
        self.figures: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.opened.append((tag, dict(attrs)))
        if tag == "script" and "data-figure" in dict(attrs):
            self.figures.append("")

    def handle_data(self, data):
        tag, attributes = self.opened[-1] if self.opened else ("", {})
        if tag == "script" and "data-figure" in attributes:
            self.figures[-1] += data
        elif tag not in {"script", "style"}:
            self.text += data


@pytest.fixture(scope="module")
def pages():
    with serving(FakePrometheus(answer=hostile.answer)) as fake:
        return draw(Prometheus(fake.address), View(), NOW)


@pytest.fixture(scope="module")
def read(pages) -> dict[str, _Elements]:
    return {page.board["uid"]: _Elements(board_page(page, pages)) for page in pages}


def _panel(elements: _Elements, uid: str, title: str) -> dict[str, str | None]:
    number = next(panel["id"] for panel in panels(dashboards()[uid]) if panel["title"] == title)
    return next(attributes for _, attributes in elements.opened if attributes.get("data-panel") == str(number))


def test_there_is_a_page_for_each_dashboard_with_all_of_its_panels_and_what_they_are_for(read):
    assert list(read) == list(dashboards())
    for uid, elements in read.items():
        drawn = {attributes["data-panel"] for _, attributes in elements.opened if "data-panel" in attributes}
        assert drawn == {str(panel["id"]) for panel in panels(dashboards()[uid])}
        for panel in panels(dashboards()[uid]):
            asks, _, when_bad = panel["description"].partition("\n\n")
            assert panel["title"] in elements.text
            assert asks in elements.text
            assert when_bad in elements.text


def test_every_panel_with_data_is_a_figure_or_a_table(read, pages):
    for page in pages:
        elements = read[page.board["uid"]]
        tables = sum(tag == "table" for tag, _ in elements.opened)
        assert len(elements.figures) + tables == page.with_data


def test_no_label_becomes_an_element(read):
    for elements in read.values():
        tags = [tag for tag, _ in elements.opened]
        assert not {"img", "b", "i", "iframe"} & set(tags)
        assert not [name for _, attributes in elements.opened for name in attributes if name.startswith("on")]
        scripts = [attributes for tag, attributes in elements.opened if tag == "script"]
        assert len([one for one in scripts if "data-figure" not in one]) == 2  # plotly's and ours


def test_figures_hold_no_markup(read):
    """Plotly itself reads some markup in names, links among them."""
    names = [
        name
        for elements in read.values()
        for figure in elements.figures
        for trace in json.loads(figure)["data"]
        for name in (trace.get("name", ""), *trace.get("hovertext", ()))
    ]
    assert any("&lt;" in name for name in names)
    assert not [name for name in names if "<" in name]


def test_only_our_own_scripts_may_run(read):
    for elements in read.values():
        policy = next(attributes["content"] for _, attributes in elements.opened if "http-equiv" in attributes)
        assert policy is not None
        assert re.search(r"script-src( 'sha256-[\w+/=]{44}'){2};", policy)
        assert policy.startswith("default-src 'none';")


def test_a_refused_query_is_shown_with_its_reason(read, pages):
    elements = read["athanor-queues"]
    assert "failed" in (_panel(elements, "athanor-queues", REFUSED)["class"] or "")
    assert "parse error: <b>unexpected</b> end of input" in elements.text
    assert "1 failed" in next(page for page in pages if page.board["uid"] == "athanor-queues").counted


def test_a_panel_without_data_says_so(read):
    assert "empty" in (_panel(read["athanor-job"], "athanor-job", EMPTY)["class"] or "")
    assert "No data in this time range." in read["athanor-job"].text


def test_what_is_not_a_number_is_a_gap(read):
    (trace,) = next(
        traces
        for figure in read["athanor-job"].figures
        if (traces := json.loads(figure)["data"])[0].get("name") == "learning rate"
    )
    assert set(trace["y"]) == {None}


def test_the_page_names_what_it_shows_as_it_is(read):
    text = read["athanor-job"].text
    assert hostile.SCRIPT in text
    assert hostile.LABELS["workload"] in text
    assert "(2 minutes)" in text
    assert "15 minutes" in read["athanor-cluster"].text


def test_the_list_leads_to_all_pages(pages):
    elements = _Elements(index_page(pages))
    links = {attributes["href"] for tag, attributes in elements.opened if tag == "a"}
    assert links == {f"{uid}.html" for uid in dashboards()}
    assert not elements.figures


def test_a_link_holds_the_values_and_stays_one_link():
    window = Window(start=0, end=60, step=5)
    template = "${logs}/?query=${workload:percentencode}%20${__from:date:iso}"
    values = {"logs": "http://logs:9428", "workload": 'a" b&c'}
    assert link_url(template, values, window) == "http://logs:9428/?query=a%22%20b%26c%201970-01-01T00:00:00Z"
    assert link_url("${runbooks}", {"runbooks": "javascript:alert(1)"}, window) is None, "it would run something"


def test_data_cannot_end_the_element_that_holds_it():
    assert "<" not in panel_html.embedded('{"text": "</script>"}')
    assert json.loads(panel_html.embedded('{"text": "</script>"}')) == {"text": "</script>"}
