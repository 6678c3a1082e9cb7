"""The runs of a sweep's trials: started, observed and deleted like any other run."""

from __future__ import annotations

import json
import re
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from athanor.inspection.objects import JOBS
from athanor.runs.job import message_of, phase_of
from athanor.runs.overlooked import Reminder
from athanor.runs.patience import Patience
from athanor.runs.pod_series import series_of
from athanor.runs.series import Series, read_series
from athanor.runs.stack import open_run, outputs_of
from athanor.sweep.trials import Place
from infra.errors import RefusalError
from infra.machine import athanor_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from athanor.runs.cluster import Cluster
    from athanor.sweep.plan import Plan
    from athanor.sweep.sweep_folder import SweepFolder

STARTING, LOST, GONE, UNKNOWN = "starting", "lost", "gone", "unknown"
"""Phases in addition to Volcano's: a run whose command has not ended, one that nobody started to the end, one whose job
that no longer exists in the cluster, and one that could not be read."""
_LOOK_SECONDS = 2.0


class StartError(Exception):
    """The message of `athanor run` when it did not start a run."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """The state of a run."""

    phase: str
    place: Place | None = None
    message: str = ""
    series: Series = field(default_factory=lambda: read_series(""))


class Runs(Protocol):
    """The operations on runs that a sweep needs."""

    def start(self, name: str, program: Sequence[str]) -> None:
        """Begin to start a run, or to start one again that is LOST."""
        ...

    def look(self, name: str, place: Place | None) -> Look:
        """Return how a run does.

        Raises:
            StartError: it was refused, or did not start.
            RefusalError: the cluster does not answer (any more).
        """
        ...

    def delete(self, name: str) -> None:
        """Begin to delete a run."""
        ...

    def deleted(self) -> dict[str, str]:
        """Return the runs whose deletion ended since the last call, with what went wrong, or else an empty text."""
        ...

    def wait(self) -> None:
        """Return when it is time to look again."""
        ...


class ClusterRuns:
    """Runs of the user's cluster. Each command is a process of its own, which neither Ctrl-C nor a kill here ends."""

    def __init__(self, cluster: Cluster, plan: Plan, kept: SweepFolder, lock: int) -> None:
        self._cluster, self._plan, self._kept, self._lock = cluster, plan, kept, lock
        self._starts: dict[str, subprocess.Popen[bytes]] = {}
        self._deletions: dict[str, subprocess.Popen[bytes]] = {}
        self._places: dict[str, Place] = {}
        self._reminders: dict[str, Reminder] = {}
        self._halves: set[str] = set()
        """Runs whose stack exists, and whose job does not."""
        self._missed = False
        self._patience = Patience()

    def start(self, name: str, program: Sequence[str]) -> None:
        """Begin to start a run: the same command line as anybody's."""
        again = ["--replace"] if name in self._halves else []
        code = [f"--workdir={self._kept.code}"] if self._kept.code.exists() else []  # absent with --no-code
        where = [*self._plan.cluster_words, f"--name={name}", *code, *again]
        self._starts[name] = self._begin(name, ["run", *where, *self._plan.options, "--json", "--", *program])

    def look(self, name: str, place: Place | None) -> Look:
        """Return how a run does.

        Raises:
            StartError: `athanor run` failed.
            RefusalError: the cluster left too many questions open.
        """
        process = self._starts.get(name)
        if process is not None:
            if process.poll() is None:
                return Look(phase=STARTING)
            del self._starts[name]
            if process.returncode:
                raise StartError(self._said(name, process))
            started = json.loads(self._output(name).splitlines()[-1])
            self._places[name] = Place(namespace=started["namespace"], job=started["job"])
        try:
            return self._look(name, place or self._places.get(name))
        except RefusalError as refusal:
            self._patience.missed(refusal)
            self._missed = True
            return Look(phase=UNKNOWN)

    def _look(self, name: str, place: Place | None) -> Look:
        place = place or self._recorded(name)
        if place is None:
            return Look(phase=LOST)
        self._places[name] = place
        where = self._cluster.within(place.namespace)
        job = where.find(JOBS, place.job)
        if job is None:
            return Look(phase=GONE, place=place)
        phase = phase_of(job)
        if phase == "Pending":
            self._reminders.setdefault(place.job, Reminder(where.asked, where.namespace, place.job)).look()
        return Look(phase=phase, place=place, message=message_of(job), series=series_of(where, place.job))

    def _recorded(self, name: str) -> Place | None:
        """Return the job recorded in a run's stack; None without one, or if its start was cut off."""
        try:
            recorded = outputs_of(open_run(name))
        except RefusalError:
            return None
        if "job_name" not in recorded:
            self._halves.add(name)
            return None
        return Place(namespace=recorded["namespace"], job=recorded["job_name"])

    def delete(self, name: str) -> None:
        """Begin to delete a run."""
        self._deletions[name] = self._begin(name, ["delete", *self._plan.cluster_words, name])

    def deleted(self) -> dict[str, str]:
        """Return the runs whose deletion ended, with what went wrong."""
        ended = {name: each for name, each in self._deletions.items() if each.poll() is not None}
        for name in ended:
            del self._deletions[name]
        return {name: self._said(name, each) if each.returncode else "" for name, each in ended.items()}

    def wait(self) -> None:
        """Return after two seconds."""
        if not self._missed:
            self._patience.answered()
        self._missed = False
        time.sleep(_LOOK_SECONDS)

    def _begin(self, name: str, words: list[str]) -> subprocess.Popen[bytes]:
        command, environment = athanor_command(*words)
        # Files rather than pipes, which would break with this process. The lock is theirs until they end.
        with (self._kept.output / name).open("wb") as output:
            return subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, pass_fds=[self._lock],
            )  # fmt: skip

    def _said(self, name: str, process: subprocess.Popen[bytes]) -> str:
        output = self._output(name)
        with suppress(ValueError, IndexError, KeyError, TypeError):
            return json.loads(output.splitlines()[-1])["error"]
        # Lines above the refusal are what the command shows before it starts.
        *_, words = re.split(r"^athanor \w+: ", output, maxsplit=1, flags=re.MULTILINE)
        return words.strip() or f"ended with {process.returncode}"

    def _output(self, name: str) -> str:
        return (self._kept.output / name).read_text(encoding="utf-8", errors="replace")
