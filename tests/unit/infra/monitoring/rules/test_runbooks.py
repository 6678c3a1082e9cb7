"""Every alert has its page, every page its alert, and what a page says to type can be typed."""

import re

import promql_parser

from infra.monitoring.rules import areas
from infra.monitoring.rules.gpu import XIDS
from infra.monitoring.rules.rule import RUNBOOKS
from infra.settings.alert_thresholds import AlertThresholds
from infra.settings.stack import Settings
from infra.settings.tree import every_field
from tests.tables import each_row
from tests.unit.infra.monitoring.dashboards.test_catalogue import COUNTING, EXISTING, KINDS
from tests.unit.infra.monitoring.rules.queries import counters_of, gauges_of, metrics_of
from tools.paths import REPOSITORY

FOLDER = REPOSITORY / RUNBOOKS
INDEX = FOLDER / "README.md"
ALERTS = {alert.name: alert for area in areas(AlertThresholds()) for alert in area.alerts}
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md") if path != INDEX}
HEADINGS = ["What it means", "What users see", "How to check", "What to do"]
BLOCK = re.compile(r"^```(sh|promql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
each_page = each_row("name", sorted(PAGES))
SCRAPES = {"scrape_duration_seconds", "scrape_samples_scraped"}
"""Prometheus makes these itself for whatever it reads."""


def lines(name, language):
    return [line for kind, text in BLOCK.findall(PAGES[name]) if kind == language for line in text.splitlines()]


def test_alerts_and_pages_belong_together():
    assert set(PAGES) == set(ALERTS)


def test_the_index_lists_every_page_with_its_severity():
    listed = re.findall(r"^- \[(\w+)\]\((\w+)\.md\) \((\w+)\)$", INDEX.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted((name, name, alert.severity) for name, alert in ALERTS.items())


@each_page
def test_pages_say_what_is_the_matter_and_what_to_do(name):
    text = PAGES[name]
    assert text.startswith(f"# {name}\n\nSeverity `{ALERTS[name].severity}`: ")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[:4] == HEADINGS
    assert headings[4:] in ([], ["Limits"])


@each_page
def test_queries_can_be_typed_and_find_what_is_stored(name):
    queries = lines(name, "promql")
    assert queries
    for query in queries:
        promql_parser.parse(query)
        assert metrics_of(query) - {None} <= EXISTING | SCRAPES
        assert [each for each in counters_of(query) if KINDS.get(each) == "gauge"] == []
        assert [each for each in gauges_of(query) if KINDS.get(each) in COUNTING] == []


@each_page
def test_commands_can_be_typed(name):
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = lines(name, "sh")
    assert commands
    assert {command.split()[0] for command in commands} <= {"make", "kubectl"}
    typed = {command.split()[1] for command in commands if command.startswith("make ")}
    assert typed | set(re.findall(r"`make ([a-z-]+)", PAGES[name])) <= targets


@each_page
def test_limits_are_settings(name):
    keys = {key for key, *_ in every_field(Settings)}
    named = set(re.findall(r"`(thresholds\.[\w.]+)`", PAGES[name]))
    assert {f"monitoring.{key}" for key in named} <= keys
    assert bool(named) == ("## Limits" in PAGES[name])


@each_row("xid", XIDS, ids=lambda xid: str(xid.codes[0]))
def test_codes_are_explained_on_the_page_of_their_action(xid):
    page = {
        "restart_node": "GpuXidRestartNode",
        "reset_gpu": "GpuXidResetGpu",
        "reset_later": "GpuXidResetLater",
        "application": "GpuXidApplication",
        "none": "GpuXidNoAction",
        "look_up": "GpuXidOther",
    }[xid.action]
    assert f"| {', '.join(map(str, xid.codes))} | {xid.meaning} |" in PAGES[page]
