"""`make dashboards` as a whole."""

from __future__ import annotations

import io
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from infra.errors import RefusalError
from tests.unit.tools.dashboards import hostile
from tests.unit.tools.dashboards.fake_prometheus import FakePrometheus, serving
from tools.dashboards import commands
from tools.dashboards.commands import View, render
from tools.dashboards.errors import DashboardError, PrometheusError
from tools.inspection.target import Place
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
            DashboardError,
            match=r"Queues / Pods picked to be stopped: parse error.*\n  max.volcano_pod_preemption_victims",
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
def test_a_cluster_without_one_is_told_what_to_do(monkeypatch, output, error, said):
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
