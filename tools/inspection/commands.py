"""What `make status`, `make why`, `make logs` and `make rerun` do."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.markup import escape

from tools.inspection import logs as job_logs
from tools.inspection.case import Case
from tools.inspection.pending import why as find_cause
from tools.inspection.reader import last_lines, read
from tools.inspection.rerun import rerun as run_again
from tools.inspection.target import resolve
from tools.inspection.views import status_tables, unread_words, why_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from tools.inspection.target import Place
    from tools.progress import Progress


def status(place: Place, console: Console, report: Progress, platform_namespaces: Sequence[str] = ()) -> None:
    """Show jobs, services, pods and GPUs."""
    target = resolve(place, report)
    snapshot = read(target.kubectl, target.namespace)
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


def logs(place: Place, job: str, report: Progress, *, follow: bool, timestamps: bool) -> None:
    """Write the logs of all pods of a job; following ends with the job or an interrupt."""
    target = resolve(place, report)
    try:
        with suppress(KeyboardInterrupt):
            job_logs.show(target.kubectl, target.namespace, job, follow=follow, timestamps=timestamps)
    except BrokenPipeError:  # whoever read it, `head` say, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def rerun(place: Place, job: str, console: Console, report: Progress, *, force: bool) -> None:
    """Run an ended job again."""
    stack = place.stack or "local"
    name = run_again(stack, job, resolve(place, report), report, force=force)
    console.print(f"{escape(job)} runs again as {escape(name)}. `make why JOB={escape(job)}` says how it does.")
