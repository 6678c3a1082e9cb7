"""`make dashboards`: query Prometheus, draw the pages, write them, and print their location."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.markup import escape

from infra.errors import RefusalError
from infra.monitoring import NAMESPACE, PROMETHEUS, PROMETHEUS_PORT
from infra.monitoring.dashboards import dashboards, serving, training_job
from tools.operations.dashboards.answers import ask
from tools.operations.dashboards.choices import built_in, choose, last_run, run_window, scrape_seconds, window
from tools.operations.dashboards.errors import DashboardError
from tools.operations.dashboards.page import INDEX, Page, board_page, index_page
from tools.operations.dashboards.prometheus import Prometheus
from tools.operations.target import resolve
from tools.paths import paths
from tools.process import CommandError
from tools.tables import table

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rich.console import Console

    from tools.operations.target import Place
    from tools.progress import Progress


@dataclass(frozen=True, kw_only=True)
class View:
    """The selected view."""

    prometheus: str | None = None
    """Address of the Prometheus. Default: the environment's own."""
    minutes: int | None = None
    """Length of the time range until now. Default: the job's page shows the time of the last run, the others show
    everything since its start."""
    namespace: str | None = None
    """Namespace of the job and of the service. Default: that of the last training run."""
    job: str | None = None
    """Default: the last one that trained."""
    service: str | None = None
    """Default: the first one there is."""

    def __post_init__(self) -> None:
        if self.minutes is not None and self.minutes < 1:
            raise RefusalError("MINUTES", self.minutes, "must be at least 1", "use MINUTES=30")


def render(place: Place, view: View, console: Console, report: Progress) -> None:
    """Draw all dashboards from what a Prometheus has.

    Raises:
        DashboardError: a query failed; all pages are there nevertheless.
        PrometheusError: Prometheus does not answer.
    """
    known: AbstractContextManager[str] = (
        nullcontext(view.prometheus) if view.prometheus else environments_own(place, report)
    )
    with known as address:
        pages = draw(Prometheus(address), view, time.time())
    index = write(pages, paths().home / "dashboards")
    rows = [[page.board["title"], page.counted, str(index.with_name(page.file_name))] for page in pages]
    console.print(table("Dashboards", ["dashboard", "shows", "file"], rows))
    console.print(f"Open {escape(index.as_uri())}", soft_wrap=True)
    if failures := _failures(pages):
        raise DashboardError("\n".join(failures))


def draw(prometheus: Prometheus, view: View, now: float) -> list[Page]:
    """Return the pages of all dashboards.

    Args:
        prometheus: Has the data.
        view: What is shown.
        now: Unix time in seconds.

    Raises:
        PrometheusError: it does not answer.
    """
    run = last_run(prometheus, now, namespace=view.namespace, workload=view.job)
    interval = scrape_seconds(prometheus, now)
    until_now = window(view.minutes, run, interval, now)
    own_time = run_window(run, interval, now) if run and not view.minutes else until_now
    # A service has no run, so no service is preferred.
    preferred = {"namespace": run.namespace, "workload": run.workload} if run else {}
    pages: list[Page] = []
    for uid, board in dashboards().items():
        period = own_time if uid == training_job.UID else until_now
        chosen = choose(prometheus, board, _given(uid, view), preferred, period)
        values = {**chosen.values, **built_in(period, interval)}
        answers = ask(prometheus, board, values, period)
        pages.append(Page(board=board, answers=answers, chosen=chosen, window=period, source=prometheus.url))
    return pages


def write(pages: Sequence[Page], folder: Path) -> Path:
    """Write the pages, and one that lists them; return the latter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for page in pages:
        (folder / page.file_name).write_text(board_page(page, pages), encoding="utf-8")
    index = folder / INDEX
    index.write_text(index_page(pages), encoding="utf-8")
    return index


def _given(uid: str, view: View) -> Mapping[str, str]:
    workloads: dict[str, str | None] = {training_job.UID: view.job, serving.UID: view.service}
    given = {"namespace": view.namespace, "workload": workloads.get(uid)}
    return {name: value for name, value in given.items() if value}


def _failures(pages: Sequence[Page]) -> list[str]:
    return [
        f"{page.board['title']} / {answer.title}: {error.error}\n  {error.expr}"
        for page in pages
        for answer in page.failed
        for error in answer.errors
    ]


@contextmanager
def environments_own(place: Place, report: Progress) -> Generator[str]:
    """Yield host:port of the Prometheus that the platform installed, through a port that kubectl forwards."""
    kubectl = resolve(place, report).kubectl
    target = f"service/{PROMETHEUS}"
    try:
        # Asked first: what kubectl says of a service without pods is about a timeout.
        kubectl.run("get", target, "-n", NAMESPACE, "-o", "name")
    except CommandError as error:
        if "(NotFound)" not in error.output:
            raise
        limit = f"the cluster has no Service {PROMETHEUS!r} in namespace {NAMESPACE!r}"
        fix = "set athanor:monitoring.kind to operator and run `pulumi up`, or use your own: PROMETHEUS=host:port"
        raise RefusalError("PROMETHEUS", None, limit, fix) from None
    with kubectl.port_forward(target, NAMESPACE, PROMETHEUS_PORT) as address:
        yield address
