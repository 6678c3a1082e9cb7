"""What the pages show by default: the last training run."""

import pytest

from infra.monitoring.dashboards import dashboards
from tests.tables import each_row
from tests.unit.tools.operations.dashboards.fake_prometheus import FakePrometheus, serving
from tools.operations.dashboards.choices import Run, built_in, choose, last_run, run_window, scrape_seconds, window
from tools.operations.dashboards.prometheus import Prometheus, Window

NOW = 1_800_000_000.0
RUN = Run(namespace="athanor", workload="digits-training", started=NOW - 3600, ended=NOW - 1800)
WINDOW = Window(start=NOW - 900, end=NOW, step=5)
JOB = dashboards()["athanor-job"]
KNOWN = {"namespace": ["athanor", "team"], "workload": ["digits-training", "resnet"]}


def _known(query: str) -> list:
    label = next(label for label in KNOWN if query.startswith(f"group by ({label})"))
    return [({label: value}, lambda _: 1.0) for value in KNOWN[label]]


def _choose(requested: dict[str, str], preferred: dict[str, str], answer=_known):
    with serving(FakePrometheus(answer=answer)) as fake:
        return choose(Prometheus(fake.address), JOB, requested, preferred, WINDOW), fake.asked


LABELS = {"namespace": "athanor", "workload": "resnet", "run": "new"}


def _times_of_a_run(query: str) -> list:
    """Yield the start, the last step and the latest sample of one run."""
    ago = {"topk(1, max": 10, "min ": 100, "max ": 4}
    seconds = next(seconds for start, seconds in ago.items() if query.startswith(start))
    return [(LABELS, lambda _: NOW - seconds)]


def test_the_last_run_lasts_from_its_process_to_its_latest_sample():
    with serving(FakePrometheus(answer=_times_of_a_run)) as fake:
        run = last_run(Prometheus(fake.address), NOW)
    assert run == Run(namespace="athanor", workload="resnet", started=NOW - 100, ended=NOW - 4)
    _, started, ended = (arguments["query"] for _, arguments in fake.asked)
    own = '{namespace="athanor", workload="resnet", run="new"}'
    assert own in started
    assert f"timestamp(athanor_training_last_step_timestamp_seconds{own})[86400s:15s]" in ended


def test_a_run_between_two_points_of_the_subquery_ends_with_its_last_step():
    def answer(query: str) -> list:
        return [] if "timestamp(" in query else _times_of_a_run(query)

    with serving(FakePrometheus(answer=answer)) as fake:
        run = last_run(Prometheus(fake.address), NOW)
    assert run is not None
    assert run.ended == NOW - 10


def test_the_last_run_of_a_job_is_asked_for_by_its_name_and_may_not_be_there():
    with serving(FakePrometheus(answer=lambda _: [])) as fake:
        assert last_run(Prometheus(fake.address), NOW, namespace="team", workload='a"b') is None
    assert '{namespace="team", workload="a\\"b"}' in fake.asked[0][1]["query"]


@each_row(("minutes", "run", "seconds"), [(30, RUN, 1800), (None, RUN, 3660), (None, None, 900), (1, None, 60)])
def test_the_time_shown_is_what_was_said_or_holds_the_last_run(minutes, run, seconds):
    chosen = window(minutes, run, 5, NOW)
    assert (chosen.end, chosen.seconds) == (NOW, seconds)
    # Prometheus refuses more than 11,000 points
    assert chosen.seconds / chosen.step <= 250
    assert chosen.step >= 5


@each_row(
    ("started", "ended", "scrape", "start", "end"),
    [
        pytest.param(NOW - 7200, NOW - 3600, 30, NOW - 7260, NOW - 3540, id="a minute at both ends"),
        pytest.param(NOW - 300, NOW - 100, 5, NOW - 320, NOW - 80, id="a tenth of a short run"),
        pytest.param(NOW - 300, NOW - 280, 5, NOW - 310, NOW - 270, id="two scrapes of a very short one"),
        pytest.param(NOW - 7200, NOW - 5, 30, NOW - 7260, NOW, id="a run that goes on: until now"),
    ],
)
def test_a_jobs_page_opens_on_the_time_of_its_run(started, ended, scrape, start, end):
    chosen = run_window(Run(namespace="athanor", workload="resnet", started=started, ended=ended), scrape, NOW)
    assert (chosen.start, chosen.end) == (start, end)
    assert chosen.step >= scrape


def test_how_often_targets_are_read_is_seen_in_their_samples():
    with serving(FakePrometheus(answer=lambda _: [({}, lambda _: 12.0)])) as fake:
        assert scrape_seconds(Prometheus(fake.address), NOW) == 5
    with serving(FakePrometheus(answer=lambda _: [])) as fake:
        assert scrape_seconds(Prometheus(fake.address), NOW) == 60


def test_a_rate_looks_back_over_four_scrapes():
    """Over less than two samples there is no rate."""
    assert built_in(WINDOW, 30) == {"__range": "900s", "__rate_interval": "120s"}
    assert built_in(Window(start=0, end=86400, step=360), 30)["__rate_interval"] == "390s"


@each_row(
    ("requested", "preferred", "namespace", "workload"),
    [
        pytest.param({}, {"namespace": "team", "workload": "resnet"}, "team", "resnet", id="that trained last"),
        pytest.param({}, {"workload": "gone"}, "athanor", "digits-training", id="else the first one"),
        # Its panels are empty if it is not there, which is what was asked for; the page names what there is.
        pytest.param({"workload": "mine"}, {"workload": "resnet"}, "athanor", "mine", id="what was said"),
    ],
)
def test_one_job_is_shown_and_the_others_are_named(requested, preferred, namespace, workload):
    chosen, asked = _choose(requested, preferred)
    assert (chosen.values["namespace"], chosen.values["workload"]) == (namespace, workload)
    assert chosen.others == {
        "namespace": [name for name in KNOWN["namespace"] if name != namespace],
        "workload": [name for name in KNOWN["workload"] if name != workload],
    }
    assert f'namespace="{namespace}"' in asked[-1][1]["query"]


def test_where_there_is_none_the_value_is_empty_or_what_people_type_first():
    chosen, _ = _choose({}, {}, answer=lambda _: [])
    assert (chosen.values["namespace"], chosen.values["workload"]) == ("", "")
    assert chosen.values["logs"] == "http://localhost:9428"
