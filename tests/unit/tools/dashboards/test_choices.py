"""What the pages show where nobody says it: the last training run."""

from __future__ import annotations

import pytest

from infra.monitoring.dashboards import dashboards
from tests.unit.tools.dashboards.fake_prometheus import FakePrometheus, serving
from tools.dashboards.choices import Run, built_in, choose, last_run, scrape_seconds, window
from tools.dashboards.prometheus import Prometheus, Window

NOW = 1_800_000_000.0
RUN = Run(namespace="athanor", workload="digits-training", started=NOW - 3600)
WINDOW = Window(start=NOW - 900, end=NOW, step=5)
JOB = dashboards()["athanor-job"]
KNOWN = {"namespace": ["athanor", "team"], "workload": ["digits-training", "resnet"]}


def _known(query: str) -> list:
    label = next(label for label in KNOWN if query.startswith(f"group by ({label})"))
    return [({label: value}, lambda _: 1.0) for value in KNOWN[label]]


def _choose(wanted: dict[str, str], preferred: dict[str, str], answer=_known):
    with serving(FakePrometheus(answer=answer)) as fake:
        return choose(Prometheus(fake.address), JOB, wanted, preferred, WINDOW), fake.asked


def test_the_last_run_is_the_one_with_the_newest_step():
    labels = {"namespace": "athanor", "workload": "resnet", "run": "new"}
    other = labels | {"run": "old"}

    def answer(query: str) -> list:
        if query.startswith("topk(1, max"):
            return [(labels, lambda _: NOW - 10)]
        return [(other, lambda _: NOW - 9000), (labels, lambda _: NOW - 100)]

    with serving(FakePrometheus(answer=answer)) as fake:
        assert last_run(Prometheus(fake.address), NOW) == Run(namespace="athanor", workload="resnet", started=NOW - 100)


def test_without_any_run_there_is_none():
    with serving(FakePrometheus(answer=lambda _: [])) as fake:
        assert last_run(Prometheus(fake.address), NOW) is None


@pytest.mark.parametrize(
    ("minutes", "run", "seconds"), [(30, RUN, 1800), (None, RUN, 3660), (None, None, 900), (1, None, 60)]
)
def test_the_time_shown_is_what_was_said_or_holds_the_last_run(minutes, run, seconds):
    found = window(minutes, run, 5, NOW)
    assert (found.end, found.seconds) == (NOW, seconds)
    # Prometheus refuses more than 11,000 points
    assert found.seconds / found.step <= 250
    assert found.step >= 5


def test_how_often_targets_are_read_is_seen_in_their_samples():
    with serving(FakePrometheus(answer=lambda _: [({}, lambda _: 12.0)])) as fake:
        assert scrape_seconds(Prometheus(fake.address), NOW) == 5
    with serving(FakePrometheus(answer=lambda _: [])) as fake:
        assert scrape_seconds(Prometheus(fake.address), NOW) == 60


def test_a_rate_looks_back_over_four_scrapes():
    """Over less than two samples there is no rate."""
    assert built_in(WINDOW, 30) == {"__range": "900s", "__rate_interval": "120s"}
    assert built_in(Window(start=0, end=86400, step=360), 30)["__rate_interval"] == "390s"


def test_the_job_that_trained_last_is_shown():
    chosen, _ = _choose({}, {"namespace": "team", "workload": "resnet"})
    assert (chosen.values["namespace"], chosen.values["workload"]) == ("team", "resnet")
    assert chosen.others == {"namespace": ["athanor"], "workload": ["digits-training"]}


def test_else_the_first_one():
    chosen, asked = _choose({}, {"workload": "gone"})
    assert (chosen.values["namespace"], chosen.values["workload"]) == ("athanor", "digits-training")
    assert 'namespace="athanor"' in asked[-1][1]["query"]


def test_what_was_said_counts_even_if_it_is_not_there():
    """Its panels are empty then, which is what was asked for; the page names what there is."""
    chosen, _ = _choose({"workload": "mine"}, {"workload": "resnet"})
    assert chosen.values["workload"] == "mine"
    assert chosen.others["workload"] == ["digits-training", "resnet"]


def test_where_there_is_none_the_value_is_empty():
    chosen, _ = _choose({}, {}, answer=lambda _: [])
    assert (chosen.values["namespace"], chosen.values["workload"]) == ("", "")


def test_fields_that_people_type_have_their_first_value():
    chosen, _ = _choose({}, {})
    assert chosen.values["logs"] == "http://localhost:9428"
