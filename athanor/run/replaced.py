"""The earlier run that `athanor run --replace` finds: whether its job continues or has to be restarted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from athanor.inspection.objects import JOBS
from athanor.runs.elsewhere import check_is_here
from athanor.runs.job import GOING_ON, phase_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from athanor.runs.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """The existing run whose name a new run takes; empty if there is none."""

    namespace: str = ""
    job_name: str = ""
    """Empty also where the start of the run before was cut off."""
    repetition: int = 0
    """Number of the run with the same content: without another number, its job would have the same name."""
    phase: str | None = None
    """Phase of its job; None if the cluster has none."""

    @classmethod
    def of(cls, name: str, recorded: Mapping[str, str], cluster: Cluster) -> Self:
        """Look at the job of a run.

        Args:
            name: The run's name.
            recorded: The outputs of its stack.
            cluster: Where the next one is to start.

        Raises:
            RefusalError: the run is of another cluster, or this one does not answer, or not to this user.
        """
        if "job_name" not in recorded:
            return cls()
        namespace, job_name = recorded["namespace"], recorded["job_name"]
        where = cluster.within(namespace)
        check_is_here(where, name, recorded)
        job = where.find(JOBS, job_name)
        return cls(
            namespace=namespace,
            job_name=job_name,
            repetition=int(recorded.get("repetition", 0)),
            phase=phase_of(job) if job else None,
        )

    @property
    def is_gone(self) -> bool:
        """Whether there was a job that no longer exists in the cluster, which the engine does not know."""
        return bool(self.job_name) and self.phase is None

    @property
    def goes_on(self) -> bool:
        """Whether its job runs or waits to run."""
        return self.phase in GOING_ON

    def next_repetition(self, *, keep_folder: bool) -> int:
        """Return the number that a job of the same content gets: another one if it has to begin from the beginning.

        Args:
            keep_folder: Give a job that is gone its former name, and with it the folder of its files.
        """
        if not self.job_name or self.goes_on or (self.is_gone and keep_folder):
            return self.repetition
        return self.repetition + 1

    def is_still(self, outputs: Mapping[str, str]) -> bool:
        """Return whether an update, whose outputs these are, left the running job alone."""
        now = (outputs["namespace"], outputs["job_name"])
        return self.goes_on and now == (self.namespace, self.job_name)
