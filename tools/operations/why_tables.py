"""The tables of `make why`: a job's state and its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.inspection import queues
from athanor.inspection.containers import state_words
from athanor.inspection.jobs import job_phase, kind_of, pod_group_of, restarts, short_name
from athanor.inspection.objects import TASK, Object, age, mark, name_of, node_of, phase_of
from athanor.inspection.status import MOST_PODS, priority_words
from tools.operations.job_code import code_words
from tools.tables import table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.table import Table

    from athanor.inspection.case import Case


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
