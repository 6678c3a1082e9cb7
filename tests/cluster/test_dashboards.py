"""`make dashboards` shows a training run of this environment, its services and its machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from infra.monitoring.dashboards import dashboards
from infra.monitoring.dashboards.queries import panels
from tests.fixtures.monitoring import Monitoring
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.fixtures.clone import Clone

JOB = "digits-training"


@pytest.fixture(scope="module")
def folder(served: Clone) -> Path:
    """The folder of the pages, drawn once a rule knows the job's pods."""
    monitoring = Monitoring(served)
    known = f'last_over_time(namespace_pod:workload:info{{workload="{JOB}"}}[1h])'
    wait_until(lambda: bool(monitoring.query(known)), lambda: f"{JOB} to be known to Prometheus")
    # By its name: runs of other tests in this environment may have come after it.
    opened = re.search(r"Open (file://\S+)", served.make("dashboards", f"JOB={JOB}"))
    assert opened
    return Path(unquote(urlsplit(opened[1]).path)).parent


def _state(page: str, uid: str, title: str) -> str:
    """Return what a panel's class says of it: nothing, `empty` or `failed`."""
    panel_id = next(panel["id"] for panel in panels(dashboards()[uid]) if panel["title"] == title)
    section = re.search(rf'<section class="panel ?(\w*)"[^>]*data-panel="{panel_id}"', page)
    assert section, title
    return section[1]


@pytest.mark.parametrize(
    ("uid", "titles"),
    [
        (
            "athanor-job",
            ("Progress", "Loss", "Loss over time", "Gradient norm", "Time left", "Memory peak", "Where its pods are"),
        ),
        ("athanor-cluster", ("Nodes ready", "CPU of nodes", "Targets up", "Series in Prometheus")),
        ("athanor-queues", ("Queues above their share", "CPU of each queue")),
        ("athanor-serving", ("Pods ready", "Versions loaded", "CPU", "Memory")),
    ],
)
def test_what_this_machine_has_is_shown(folder: Path, uid: str, titles: tuple[str, ...]) -> None:
    page = (folder / f"{uid}.html").read_text(encoding="utf-8")
    assert {title: _state(page, uid, title) for title in titles} == dict.fromkeys(titles, "")


def test_the_job_that_was_named_is_the_one_that_is_shown(folder: Path) -> None:
    page = (folder / "athanor-job.html").read_text(encoding="utf-8")
    assert f"<dt>Job</dt><dd>{JOB}" in page


def test_the_page_of_the_job_shows_the_time_of_its_run(folder: Path) -> None:
    """A run of seconds would be a corner of the quarter of an hour that the other pages show."""

    def seconds(uid: str) -> float:
        page = (folder / f"{uid}.html").read_text(encoding="utf-8")
        times = re.search(r'data-start="(\d+)" data-end="(\d+)"', page)
        assert times
        return (int(times[2]) - int(times[1])) / 1000

    assert 10 < seconds("athanor-job") < 600
    assert seconds("athanor-cluster") >= 900


def test_no_query_fails(folder: Path) -> None:
    for uid in dashboards():
        assert 'class="panel failed"' not in (folder / f"{uid}.html").read_text(encoding="utf-8")


def test_gpus_are_not_made_up_where_there_are_none(folder: Path) -> None:
    page = (folder / "athanor-cluster.html").read_text(encoding="utf-8")
    assert _state(page, "athanor-cluster", "Temperature of GPUs") == "empty"
