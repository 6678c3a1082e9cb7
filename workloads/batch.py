"""Batch jobs other than training, such as preparing data: pods with an index, independent of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.admitted import LARGEST_ROLE
from infra.descriptions import checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import Word
from workloads.checks import check_range
from workloads.job import Job
from workloads.job_args import JobArgs
from workloads.roles import Role
from workloads.volcano_job import JobShape

if TYPE_CHECKING:
    import pulumi

    from infra.platform import Platform


@checked()
@dataclass(frozen=True, kw_only=True)
class BatchJobArgs(JobArgs):
    """Arguments of BatchJob. `prepare` is not among what it takes: the command itself may write /data/data."""

    command: Sequence[Word]
    """What each pod runs; `$(VC_TASK_INDEX)` in it stands for the pod's number, from 0, `$(ATHANOR_JOB)` for the job's
    name, and everything else arrives as written."""
    pods: int = 1
    """Pods, each with a part of the work; they start as places become free."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the pods.

        Raises:
            RefusalError: naming the field, the value and what to write.
        """
        super().__post_init__()
        check_range("pods", self.pods, 1, LARGEST_ROLE)
        if not self.command:
            raise RefusalError(
                "command", self.command, "is empty", 'set the command to run, such as ("python3", "-m", "my.data")'
            )
        if self.prepare:
            raise RefusalError(
                "prepare", self.prepare, "applies only to training jobs", "run it as part of the command"
            )


def batch_shape(args: BatchJobArgs) -> JobShape:
    """Return the one role of a job: any pod may start alone, all must succeed."""
    pods = Role(
        name="pod", replicas=args.pods, minimum=1, pod=args, command=args.command, writes_data=True,
        env={"ATHANOR_PODS": str(args.pods)}, restart="alone", needed=False,
    )  # fmt: skip
    return JobShape(kind="batch", roles=[pods], successes=args.pods)


class BatchJob(Job):
    """Pods that each do a part of some work, with /data/data writable; a failed one starts again alone."""

    def __init__(
        self, name: str, platform: Platform, args: BatchJobArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, platform, args, opts, lambda _name, _resolved: batch_shape(args))
