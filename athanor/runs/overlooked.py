"""Jobs that Volcano's controller overlooks: admitted by the scheduler, but without pods.

The controller learns from a watch that a job has been admitted. When the API server ends the watch, as it does when it
starts again, when a CRD changes and often a second after the first watch of a new CRD ("too old resource version"), the
controller begins another one seconds later, and takes what changed in between for old. Such a job stays Pending until
something else makes the controller look at it (volcano-sh/volcano#5325, open in Volcano 1.15.1). A command to resume it
does, and changes nothing else.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from athanor.inspection.jobs import is_overlooked, pod_group_name
from athanor.inspection.objects import JOBS, POD_GROUPS
from athanor.inspection.reader import pods_of_run
from athanor.runs.volcano_command import command

if TYPE_CHECKING:
    from athanor.inspection.objects import Object
    from athanor.inspection.reader import Asked

REMINDED = "Volcano's controller had overlooked the job, and has been reminded of it"
"""Message for users who follow the job."""
_FIRST_SECONDS = 5.0
"""Seconds that a job may have no pods before it is checked: the scheduler admits most within a second."""
_LAST_SECONDS = 60.0
"""Seconds between checks of a job that waits for hours: each check starts kubectl three times."""


class Reminder:
    """Reminds Volcano's controller of a job that it has overlooked, for those who follow the job."""

    def __init__(self, cluster: Asked, namespace: str, job_name: str) -> None:
        self._cluster, self._namespace, self._job_name = cluster, namespace, job_name
        self._wait(_FIRST_SECONDS)

    def look(self) -> bool:
        """Remind the controller if it is time to and it has overlooked the job; return whether that was done.

        To be called while the job has no pods. Users who may not ask or command leave it to others.
        """
        if time.monotonic() < self._due:
            return False
        try:
            reminded = remind(self._cluster, self._namespace, self._job_name)
        except self._cluster.failure:
            reminded = False
        # One reminder may come before the controller's new watch: then another one follows soon.
        self._wait(_FIRST_SECONDS if reminded else min(2 * self._seconds, _LAST_SECONDS))
        return reminded

    def _wait(self, seconds: float) -> None:
        self._seconds, self._due = seconds, time.monotonic() + seconds


def remind(cluster: Asked, namespace: str, job_name: str) -> bool:
    """Make the controller look at a job if it has overlooked it; return whether it has.

    `cluster.failure` is raised where the cluster does not answer, or not to this user.
    """
    job = _get(cluster, namespace, JOBS, job_name)
    if job is None:
        return False
    group = _get(cluster, namespace, POD_GROUPS, pod_group_name(job))
    pods = pods_of_run(cluster.items, namespace, job_name, job["metadata"]["uid"])
    if not is_overlooked(job, group, pods):
        return False
    with tempfile.TemporaryDirectory(prefix="athanor-") as folder:
        file = Path(folder) / "command.json"
        file.write_text(json.dumps(command(namespace, job, "ResumeJob")), encoding="utf-8")
        cluster.run("create", "-n", namespace, "-f", str(file))
    return True


def _get(cluster: Asked, namespace: str, kind: str, name: str) -> Object | None:
    answer = cluster.run("get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "json")
    return json.loads(answer) if answer.strip() else None
