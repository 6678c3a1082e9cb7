"""`make dashboards` as a whole."""

import io
import stat
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from infra.errors import RefusalError
from tests.unit.tools.operations.dashboards import hostile
from tests.unit.tools.operations.dashboards.fake_prometheus import FakePrometheus, serving
from tools.operations.dashboards import commands
from tools.operations.dashboards.commands import View, draw, render
from tools.operations.dashboards.errors import DashboardError, PrometheusError
from tools.operations.dashboards.prometheus import Prometheus
from tools.operations.target import Place
from tools.paths import paths
from tools.process import CommandError
from tools.progress import Progress


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def _render(view: View, console: Console, home) -> None:
    render(Place(stack="local"), view, console, Progress(durations_file=home / "durations.json", console=console))


def _printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _good(query: str) -> list:
    return [] if "volcano_pod_preemption_victims" in query else hostile.answer(query)


def test_it_writes_the_pages_and_says_where(home, console):
    with serving(FakePrometheus(answer=_good)) as fake:
        _render(View(prometheus=fake.address), console, home)
    folder = paths().home / "dashboards"
    assert {file.name for file in folder.iterdir()} >= {"index.html", "athanor-job.html", "athanor-cost.html"}
    assert (folder / "index.html").as_uri() in _printed(console)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_refused_query_ends_it_with_panel_and_query_after_all_pages_are_written(home, console):
    with (
        serving(FakePrometheus(answer=hostile.answer)) as fake,
        pytest.raises(
            DashboardError, match=r"Queues / Preemption victims: parse error.*\n  max.volcano_pod_preemption_victims"
        ),
    ):
        _render(View(prometheus=fake.address), console, home)
    assert (home / "dashboards" / "athanor-cost.html").is_file()


def test_what_was_said_is_what_is_asked_for(home, console):
    view = View(minutes=30, namespace="team", job="resnet", service="digits")
    with serving(FakePrometheus(answer=_good)) as fake:
        _render(View(**{**vars(view), "prometheus": fake.address}), console, home)
    queries = [arguments["query"] for _, arguments in fake.asked]
    assert any('athanor_training_loss{namespace="team", workload="resnet"}' in query for query in queries)
    assert any('service:requests:rate5m{namespace="team", workload="digits"}' in query for query in queries)
    ranges = [arguments for path, arguments in fake.asked if path.endswith("query_range")]
    assert {float(one["end"]) - float(one["start"]) for one in ranges} == {1800}


def test_without_an_address_the_environments_own_is_forwarded(home, console, monkeypatch):
    with serving(FakePrometheus(answer=_good)) as fake:
        kubectl = _Kubectl(fake.address)
        monkeypatch.setattr(commands, "resolve", lambda *_: kubectl)
        _render(View(), console, home)
    assert kubectl.forwarded == [("service/prometheus", "monitoring", 9090)]


@pytest.mark.parametrize(
    ("output", "error", "said"),
    [
        ('Error from server (NotFound): services "prometheus" not found', RefusalError, "PROMETHEUS=host:port"),
        ("Unable to connect to the server", CommandError, "Unable to connect"),
    ],
)
def test_a_cluster_without_one_gets_advice(monkeypatch, output, error, said):
    monkeypatch.setattr(commands, "resolve", lambda *_: _Kubectl("", output))
    with pytest.raises(error, match=said):
        render(Place(stack="local"), View(), Console(), Progress(durations_file=Path("durations.json")))


def test_nobody_there_is_an_error_and_no_empty_page(home, console):
    with serving(FakePrometheus(answer=_good)) as fake:
        address = fake.address
    with pytest.raises(PrometheusError):
        _render(View(prometheus=address), console, home)
    assert not (home / "dashboards").exists()


def test_less_than_a_minute_is_refused():
    with pytest.raises(RefusalError, match="MINUTES"):
        View(minutes=0)


class _Kubectl:
    """Stands for a target and its kubectl."""

    def __init__(self, address: str, failure: str = "") -> None:
        self.kubectl = self
        self.forwarded: list[tuple] = []
        self._address, self._failure = address, failure

    def run(self, *words: str) -> str:
        if self._failure:
            raise CommandError(["kubectl", *words], 1, self._failure, None)
        return "service/prometheus\n"

    @contextmanager
    def port_forward(self, *target):
        self.forwarded.append(target)
        yield self._address


def test_the_page_of_a_job_shows_its_run_and_the_others_last_until_now():
    now = time.time()
    with serving(FakePrometheus(answer=_good)) as fake:
        pages = draw(Prometheus(fake.address), View(), now)
    windows = {page.board["uid"]: page.window for page in pages}
    job = windows.pop("athanor-job")
    # The run of the answers ended ten minutes ago, in no time.
    assert now - 600 < job.end < now - 400
    assert {each.end for each in windows.values()} == {now}


def test_minutes_count_for_the_page_of_a_job_too():
    with serving(FakePrometheus(answer=_good)) as fake:
        pages = draw(Prometheus(fake.address), View(minutes=30), 1e9)
    assert {(page.window.start, page.window.end) for page in pages} == {(1e9 - 1800, 1e9)}
