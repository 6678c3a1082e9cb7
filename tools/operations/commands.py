"""`make status`, `make why`, `make logs`, `make search-logs` and `make rerun`."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.markup import escape

from athanor.command_line import discard_output
from athanor.inspection import queues
from athanor.inspection.case import Case
from athanor.inspection.containers import state_words
from athanor.inspection.jobs import job_phase, kind_of, logical_name, pod_group_of, restarts, short_name
from athanor.inspection.log_store import LogStore
from athanor.inspection.objects import TASK, Object, age, mark, name_of, node_of, phase_of, unread_words
from athanor.inspection.status import MOST_PODS, priority_words
from athanor.inspection.why import why as find_cause
from infra.errors import RefusalError
from infra.monitoring import NAMESPACE, VICTORIA_LOGS, VICTORIA_LOGS_PORT
from tools.errors import ExpectedError
from tools.operations import logs as job_logs
from tools.operations.job_code import code_words
from tools.operations.past_logs import show_past
from tools.operations.reader import last_lines, read, read_for_status
from tools.operations.rerun import Request
from tools.operations.rerun import rerun as run_again
from tools.operations.search_logs import Search, search
from tools.operations.status import status_tables
from tools.operations.target import resolve
from tools.process import CommandError
from tools.tables import table

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from rich.console import Console
    from rich.table import Table

    from tools.kubectl import Kubectl
    from tools.operations.target import Place, Target
    from tools.progress import Progress


def why_tables(case: Case, now: datetime) -> list[Table]:
    """Return one job's state and its pods."""
    facts = [
        ["object", name_of(case.job)],
        ["kind", kind_of(case.job)],
        ["state", job_phase(case.job)],
        ["age", age(case.job["metadata"].get("creationTimestamp"), now)],
        ["restarts", str(restarts(case.job)[0])],
        ["queue", _queue_words(case)],
        ["priority", priority_words(case.snapshot, case.job)],
        *([["code", code]] if (code := code_words(case.job, case.pods)) else []),
    ]
    pods = [
        [mark(pod, TASK), short_name(pod, case.job), state_words(pod), node_of(pod) or "-"] for pod in _worst(case.pods)
    ]
    rest = len(case.pods) - len(pods)
    caption = f"{rest} more" if rest else None
    return [
        table(f"Job {case.name}", ["what", "value"], facts),
        table("Its pods", ["role", "pod", "state", "node"], pods, caption),
    ]


def _worst(pods: Sequence[Object]) -> list[Object]:
    """Return the pods to list: all, or of very many those first that do not run."""
    order = {"Failed": 0, "Pending": 1, "Unknown": 1, "Running": 2, "Succeeded": 3}
    few = len(pods) <= MOST_PODS
    return list(pods) if few else sorted(pods, key=lambda pod: order.get(phase_of(pod), 1))[:MOST_PODS]


def _queue_words(case: Case) -> str:
    group = pod_group_of(case.snapshot, case.job)
    place = queues.position(case.snapshot, group) if group else None
    return f"{case.queue}, number {place[0]} of {place[1]} that wait" if place else case.queue


class NoLogStoreError(ExpectedError):
    """The cluster has none."""


@contextmanager
def log_store(kubectl: Kubectl) -> Generator[LogStore]:
    """Reach a cluster's store while the block runs.

    Raises:
        NoLogStoreError: there is none; the message says how to get one.
        CommandError: this user may not forward ports there, or the cluster could not be asked.
    """
    target = f"service/{VICTORIA_LOGS}"
    try:
        # Asked first: what kubectl says of a service without pods is about a timeout.
        kubectl.run("get", target, "-n", NAMESPACE, "-o", "name")
    except CommandError as error:
        if "(NotFound)" in error.output:
            raise NoLogStoreError(_NONE) from None
        raise
    with kubectl.port_forward(target, NAMESPACE, VICTORIA_LOGS_PORT) as address:
        store = LogStore(address)
        try:
            yield store
        finally:
            store.close()


_NONE = (
    f"this cluster has no log store (no service {VICTORIA_LOGS!r} in namespace {NAMESPACE!r}). Fix: set"
    " athanor:monitoring.logs.kind to victoria_logs and run `pulumi up`; with kind sls, read them in the Log Service's"
    " console"
)


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
