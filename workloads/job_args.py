"""Arguments that every kind of job takes, beside those of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workloads.checks import check_command, check_labels, check_range
from workloads.roles import PodArgs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pulumi

    from workloads.git_source import GitSource
    from workloads.topology import Together


@dataclass(frozen=True, kw_only=True)
class JobArgs(PodArgs):
    """What a job is, beside its roles; what PodArgs says holds for the pods that compute."""

    image: pulumi.Input[str] | None = None
    """Image of the pods. Default: the platform's."""
    source: GitSource | None = None
    """Fetch the code from git when a pod starts. Default: it is in the image."""
    prepare: Sequence[str] = ()
    """Command that fills /data/data first, run once per computing pod; it must be safe to run twice at once."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of the job's object alone: a change of them does not replace the job."""
    queue: pulumi.Input[str] | None = None
    """Volcano queue. Default: the platform's first one."""
    priority_class: str | None = None
    """One of the platform's priority classes, such as "high", or the full name of any PriorityClass."""
    together: Together | None = None
    """Keep all pods close to each other in the network. Default: wherever they fit."""
    max_restarts: int = 10
    """How often the whole job starts again after a pod failed or was deleted, before it counts as failed."""
    grace_period_seconds: int = 60
    """Time between SIGTERM and SIGKILL: one step and one checkpoint must fit."""
    deadline_seconds: int | None = None
    """Longest time that the pods of one attempt may run; with `max_restarts=0` that of the job. Default: none."""
    ttl_seconds_after_finished: int | None = None
    """How long the pods stay after the job completed or failed: then they and their logs are removed, within the
    platform's `clean_up.interval_minutes`. The Job object stays as the record of what ran, so that no update runs it
    again, and so do the volumes. A change replaces nothing. Default: the pods stay as long as the job is declared."""
    wait_seconds: int | None = None
    """Let `up` wait this long for the job to complete, and fail if it does not. Default: `up` does not wait."""
    rerun: int = 0
    """Another number runs the same job once more, as a new object."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the cluster."""
        super().__post_init__()
        check_command("prepare", self.prepare)
        check_labels("labels", self.labels)
        check_range("max_restarts", self.max_restarts, 0, 1000)
        check_range("grace_period_seconds", self.grace_period_seconds, 10, 3600)
        check_range("rerun", self.rerun, 0, 1_000_000)
        if self.deadline_seconds is not None:
            check_range("deadline_seconds", self.deadline_seconds, 1, 10 * 365 * 86400)
        if self.ttl_seconds_after_finished is not None:
            check_range("ttl_seconds_after_finished", self.ttl_seconds_after_finished, 0, 10 * 365 * 86400)
        if self.wait_seconds is not None:
            check_range("wait_seconds", self.wait_seconds, 1, 86400)
