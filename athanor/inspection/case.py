"""A job with all objects that are relevant to its diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from athanor.inspection.commands import MAKE, Commands
from athanor.inspection.gpus import requests
from athanor.inspection.jobs import Role, find_job, logical_name, pod_group_of, pods_of, queue_of, roles_of
from athanor.inspection.objects import Amounts, Object, Snapshot, added, node_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Case:
    """One job with all that bears on it."""

    snapshot: Snapshot
    job: Object
    commands: Commands = MAKE
    """Commands that next steps name."""
    local: bool = False
    """Whether it runs on the cluster of `make up`, whose images come from this machine."""

    @classmethod
    def of(cls, snapshot: Snapshot, name: str, *, commands: Commands = MAKE, local: bool = False) -> Case:
        """Return the case of a job by its name.

        Raises:
            RefusalError: there is no such job.
        """
        return cls(snapshot=snapshot, job=find_job(snapshot, name), commands=commands, local=local)

    @property
    def name(self) -> str:
        """The job's name in the program."""
        return logical_name(self.job)

    @property
    def logs_command(self) -> str:
        """Command that prints its logs."""
        return self.commands.logs.format(self.name)

    @property
    def rerun_command(self) -> str:
        """Command that runs it again."""
        return self.commands.rerun.format(self.name)

    @property
    def resume_command(self) -> str:
        """Command that continues it after a stop."""
        return self.commands.resume.format(self.name)

    @property
    def namespace(self) -> str:
        """The job's namespace."""
        return self.snapshot.namespace

    @property
    def queue(self) -> str:
        """The name of the job's queue."""
        return queue_of(self.job)

    @cached_property
    def pods(self) -> Sequence[Object]:
        """Its pods, by role and index."""
        return pods_of(self.snapshot, self.job)

    @cached_property
    def roles(self) -> Sequence[Role]:
        """Its roles, with their pods."""
        return roles_of(self.job, self.pods)

    @cached_property
    def group(self) -> Object | None:
        """Its PodGroup."""
        return pod_group_of(self.snapshot, self.job)

    @property
    def waits(self) -> bool:
        """Whether pods of it have no node."""
        return any(role.waiting for role in self.roles)

    @property
    def starts_whole(self) -> bool:
        """Whether it has nothing yet, so that all of its minimum must start at once."""
        return not any(node_of(pod) for pod in self.pods)

    @cached_property
    def need(self) -> Amounts:
        """Total request of its waiting pods."""
        return added(
            Amounts({key: role.waiting * value for key, value in requests(role.template).items()})
            for role in self.roles
        )
