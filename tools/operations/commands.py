"""`make status`, `make why`, `make logs`, `make search-logs` and `make rerun`."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.markup import escape

from athanor.command_line import discard_output
from athanor.inspection.case import Case
from athanor.inspection.jobs import logical_name
from athanor.inspection.objects import unread_words
from athanor.inspection.why import why as find_cause
from infra.errors import RefusalError
from infra.monitoring import NAMESPACE
from tools.operations import logs as job_logs
from tools.operations.log_store import NoLogStoreError, log_store
from tools.operations.past_logs import show_past
from tools.operations.reader import last_lines, read, read_for_status
from tools.operations.rerun import Request
from tools.operations.rerun import rerun as run_again
from tools.operations.search_logs import Search, search
from tools.operations.status import status_tables
from tools.operations.target import resolve
from tools.operations.why_tables import why_tables

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from rich.console import Console

    from tools.operations.target import Place, Target
    from tools.progress import Progress


_FRESH = "to start without them, change the number `rerun` in its arguments"


@dataclass(frozen=True, kw_only=True)
class LogView:
    """Selection of a job's logs, and their form."""

    follow: bool = False
    """Whether to follow until the job has ended."""
    timestamps: bool = False
    past: bool = False
    """Whether to read the logs in the store, whether or not the cluster has pods of the job."""

    def __post_init__(self) -> None:
        if self.past and self.follow:
            raise RefusalError("FOLLOW", True, "past logs cannot be followed", "omit FOLLOW or PAST")  # noqa: FBT003


def status(place: Place, console: Console, report: Progress, platform_namespaces: Sequence[str] = ()) -> None:
    """Show jobs, services, pods and GPUs."""
    target = resolve(place, report)
    snapshot = read_for_status(target.kubectl, target.namespace)
    for each in status_tables(snapshot, datetime.now(UTC), platform_namespaces):
        console.print(each)
    if words := unread_words(snapshot):
        console.print(words)


def why(place: Place, job: str, console: Console, report: Progress) -> None:
    """Show one job: its state, its pods, and why it does not run."""
    target = resolve(place, report)
    snapshot = read(target.kubectl, target.namespace)
    case = Case.of(snapshot, job, local=target.local)
    for each in why_tables(case, datetime.now(UTC)):
        console.print(each)
    finding = find_cause(case)
    # The cluster's words are text: `[/data]` in them must not be taken for markup.
    console.print(f"[bold]Why:[/] {escape(finding.sentence)}", soft_wrap=True)
    if finding.log:
        for line in last_lines(target.kubectl, target.namespace, finding.log):
            console.print(f"  [dim]{escape(finding.log.pod)}:[/] {escape(line)}", soft_wrap=True)
    if words := unread_words(snapshot):
        console.print(words)


def logs(place: Place, job: str, report: Progress, how: LogView) -> None:
    """Write the logs of all pods of a job; following ends with the job or an interrupt.

    Of a job without pods, or that is gone itself, those that the store has.
    """
    target = resolve(place, report)
    with _to_whom_it_concerns():
        try:
            if how.past:
                _past_logs(target, job, how)
            else:
                job_logs.show(target.kubectl, target.namespace, job, follow=how.follow, timestamps=how.timestamps)
        except (job_logs.NoPodsLeftError, RefusalError):
            if how.past or how.follow:
                raise
            with suppress(NoLogStoreError):
                return _past_logs(target, job, how)
            raise


def _past_logs(target: Target, job: str, how: LogView) -> None:
    with log_store(target.kubectl) as store:
        known = {logical_name(each) for each in target.kubectl.items("jobs.batch.volcano.sh", target.namespace)}
        show_past(store, target.namespace, job, known=known, timestamps=how.timestamps)


def search_logs(place: Place, what: Search, report: Progress) -> None:
    """Write the lines of all pods that a query finds."""
    # The search is of all namespaces, so that none needs to be known.
    target = resolve(replace(place, namespace=place.namespace or NAMESPACE), report)
    with _to_whom_it_concerns(), log_store(target.kubectl) as store:
        search(store, what)


@contextmanager
def _to_whom_it_concerns() -> Generator[None]:
    """End quietly when nobody reads on: an interrupt, or a `head` that has enough."""
    try:
        with suppress(KeyboardInterrupt):
            yield
    except BrokenPipeError:
        discard_output()


def rerun(place: Place, asked: Request, console: Console, report: Progress) -> None:
    """Run an ended job again."""
    job = escape(asked.job)
    again = run_again(place.stack, asked, resolve(place, report), report)
    console.print(f"{job} runs again as {escape(again.name)}. `make why JOB={job}` shows its state.", soft_wrap=True)
    if again.code:
        console.print(escape(again.code), soft_wrap=True)
    left = f"/data/output/{escape(again.name)}"
    console.print(f"It continues from the checkpoints under {left}; {_FRESH}.", soft_wrap=True)
