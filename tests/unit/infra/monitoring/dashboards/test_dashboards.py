"""The dashboards' JSON: what Grafana needs, and what people need of every panel."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl, unquote

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from infra.monitoring.dashboards import dashboards
from infra.monitoring.dashboards.panels import Limits, Look, Text, over_time, panel_id
from infra.monitoring.dashboards.queries import panels
from infra.monitoring.logs import JOB_FIELD, NAMESPACE_FIELD, SERVICE_FIELD
from infra.settings.alert_thresholds import AlertThresholds, GpuThresholds
from tests.tables import each_row

BOARDS = dashboards()
UIDS = ("athanor-cluster", "athanor-job", "athanor-queues", "athanor-serving", "athanor-cost")
PANELS = [
    pytest.param(panel, id=f"{uid}: {panel['title']}") for uid, board in BOARDS.items() for panel in panels(board)
]
GRAFANAS_OWN = {"__range", "__rate_interval"}


@pytest.fixture(params=BOARDS)
def board(request) -> dict:
    return BOARDS[request.param]


def test_there_is_one_for_each_question():
    """Links from elsewhere hold these uids."""
    assert tuple(BOARDS) == UIDS


def test_each_carries_its_uid(board):
    assert BOARDS[board["uid"]] is board


def test_they_are_the_same_each_time():
    assert json.dumps(dashboards()) == json.dumps(BOARDS)


def test_grafanas_schema_has_all_that_is_in_them(board):
    """Read by the types of Grafana's schema and written again, nothing is lost or called otherwise."""
    read = Dashboard.from_json(board)
    assert json.loads(json.dumps(read, cls=JSONEncoder)) == board


def test_ids_tell_panels_apart(board):
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


def test_an_id_stays_when_a_panel_moves():
    """Links to a panel hold its id."""
    assert panel_id("Loss over time") == 551906


def test_titles_tell_panels_apart(board):
    """A failing query is named by the panel's title."""
    titles = [panel["title"] for panel in panels(board)]
    assert len(set(titles)) == len(titles)


def test_no_panel_covers_another(board):
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@each_row("panel", PANELS)
def test_a_panel_says_what_it_answers_and_what_to_do(panel):
    asks, _, when_bad = panel["description"].partition("\n\n")
    assert re.match(r"[A-Z][a-z].*\?", asks)
    assert re.fullmatch(r"When it looks bad: \S.*[a-z].*\.", when_bad)
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_queries_use_the_dashboards_own_variables(board):
    known = GRAFANAS_OWN | {variable["name"] for variable in board["templating"]["list"]}
    used = {
        name
        for panel in panels(board)
        for target in panel["targets"]
        for name in re.findall(r"\$\{?(\w+)", target["expr"])
    }
    assert used <= known


@each_row("panel", PANELS)
def test_a_panels_queries_have_all_they_need(panel):
    assert panel["targets"]
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"]
        assert target["instant"] is not target["range"]
        assert target["legendFormat"] or panel["type"] == "table"
    ids = [target["refId"] for target in panel["targets"]]
    assert len(set(ids)) == len(ids)


@each_row("panel", PANELS)
def test_a_number_is_one_series(panel):
    if panel["type"] == "stat":
        (target,) = panel["targets"]
        assert re.match(r"(sum|max|avg|count|time\(\) - max) ?\(", target["expr"])
        assert not re.match(r"\w+ by", target["expr"])


def test_variables_of_a_job_depend_on_the_namespace():
    namespace, workload = (
        variable for variable in BOARDS["athanor-job"]["templating"]["list"] if variable["type"] == "query"
    )
    assert namespace["name"] == "namespace"
    assert 'namespace="$namespace"' in workload["query"]
    assert 'kind!="service"' in workload["query"]


@each_row(("uid", "field"), [("athanor-job", JOB_FIELD), ("athanor-serving", SERVICE_FIELD)])
def test_a_job_and_a_service_lead_to_their_logs(uid, field):
    link = next(link for link in BOARDS[uid]["links"] if link["title"].startswith("Logs"))
    page, _, query = link["url"].partition("&query=")
    assert page.startswith("${logs}/select/vmui/#/?")
    expected = f'"{NAMESPACE_FIELD}":="${{namespace:percentencode}}" "{field}":="${{workload:percentencode}}"'
    assert unquote(query) == f"{expected} _time:[${{__from:date:iso}}, ${{__to:date:iso}}]"
    assert not set(query) & set(' "&#')


def test_a_run_leads_to_the_dashboard_on_its_own_time():
    """Of the values of a table, only their numbers are times in a URL: their text is a date."""
    runs = next(panel for panel in panels(BOARDS["athanor-job"]) if panel["title"] == "Runs of the last week")
    (link,) = runs["fieldConfig"]["defaults"]["links"]
    path, _, query = link["url"].partition("?")
    assert path == "/d/athanor-job"
    assert dict(parse_qsl(query)) == {
        "var-datasource": "${datasource}",
        "var-namespace": "${namespace}",
        "var-workload": '${__data.fields["workload"]}',
        "from": '${__data.fields["Value #A"].numeric}',
        "to": '${__data.fields["Value #B"].numeric}',
    }
    assert [target["refId"] for target in runs["targets"]] == ["A", "B"]
    assert all("* 1000" in target["expr"] for target in runs["targets"])


def test_a_number_that_is_a_ratio_has_stated_decimals(board):
    """By itself, Grafana rounds 99.7 % to 100 % (grafana/grafana#49761)."""
    ratios = [
        panel["fieldConfig"]["defaults"].get("decimals")
        for panel in panels(board)
        if panel["type"] == "stat" and panel["fieldConfig"]["defaults"]["unit"] == "percentunit"
    ]
    assert set(ratios) <= {1, 2}


def test_objectives_are_written_without_trailing_zeros():
    text = json.dumps(BOARDS["athanor-serving"])
    assert "99.9%" in text
    assert "99.9000" not in text


def test_every_dashboard_leads_to_the_runbooks_and_to_the_others(board):
    assert {"Runbooks", "Dashboards"} <= {link["title"] for link in board["links"]}


def test_lines_are_drawn_where_alerts_fire():
    hotter = AlertThresholds(gpu=GpuThresholds(temperature_celsius=95))
    panel = next(
        each for each in panels(dashboards(hotter)["athanor-cluster"]) if each["title"] == "Temperature of GPUs"
    )
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(step["color"], step["value"]) for step in steps] == [("green", None), ("orange", 90), ("red", 95)]


def test_a_low_value_can_be_the_bad_one():
    look = Look(limits=Limits(doubtful=3, bad=1))
    panel = over_time("Replicas", {"there": "up"}, Text(asks="How many?", when_bad="Look."), look).build()
    assert panel.field_config is not None
    assert panel.field_config.defaults.thresholds is not None
    steps = panel.field_config.defaults.thresholds.steps
    assert [(step.color, step.value) for step in steps] == [("red", None), ("orange", 1), ("green", 3)]


def test_runbooks_are_looked_for_where_the_settings_say():
    board = dashboards(runbook_base_url="https://git.example/docs/runbooks")["athanor-queues"]
    entry = next(each for each in board["templating"]["list"] if each["name"] == "runbooks")
    assert entry["query"] == entry["current"]["value"] == "https://git.example/docs/runbooks"
