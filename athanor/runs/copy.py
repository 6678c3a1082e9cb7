"""`athanor copy`: copies files between this machine and the platform's volumes, also of runs without pods.

It goes through a running pod of the run if one is suitable; else a job with one small pod mounts the volumes for the
time of the copy. It is a job, not a bare pod, so that it needs the same rights as a run and counts in the queue.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from athanor.inspection.objects import JOBS
from athanor.runs.job import ENDED, exec_words, job_of, message_of, phase_of, started_pod
from athanor.runs.rerun import output_folder
from athanor.runs.tar_stream import ALIVE
from athanor.runs.transfer import NoGreetingError, download, upload
from infra.errors import RefusalError
from workloads.pods import DATA_PATH, OUTPUT_PATH, Claims, Container, GpuAccess, pod_spec
from workloads.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from athanor.runs.cluster import Cluster
    from infra.outputs import PlatformOutputs

Result = TypeVar("Result")
VOLUMES = {"data": DATA_PATH, "output": OUTPUT_PATH}
_IDLE_SECONDS = 300
"""Seconds after which the pod ends by itself, when the command that started it was killed."""
_WAIT_SECONDS = 300
_POLL_SECONDS = 1.0
_KEEP = f"""
import pathlib, time
alive = pathlib.Path({str(ALIVE)!r})
alive.touch()
while time.time() - alive.stat().st_mtime < {_IDLE_SECONDS}:
    time.sleep(5)
"""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A path in a volume."""

    path: str
    """Its path in a pod."""
    run: str | None = None
    """The run whose folder it is in; None for data: and output:."""
    job_name: str = ""
    """Name of this run's job."""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """Source and target of a copy: one of them is a path in a volume, the other a path of this machine."""

    source: Place | Path
    target: Place | Path
    replace: bool
    """Whether the target may exist."""


def read_copy(source: str, target: str, job_of_run: Callable[[str], tuple[str, str]], *, replace: bool) -> Copy:
    """Return the copy that a command line requests.

    Args:
        source: A path of this machine, or data:PATH, output:PATH, or RUN:PATH for what a run wrote.
        target: The same.
        job_of_run: Returns the name of a run's job, and its folder in the volume `output`.
        replace: Whether the target may exist.

    Raises:
        RefusalError: both or neither are in a volume, a path leaves its volume, or the run or file does not exist.
    """
    places = [place_of(text, job_of_run) for text in (source, target)]
    if (places[0] is None) == (places[1] is None):
        limit = "exactly one of source and target must be in a volume"
        fix = "write data:PATH, output:PATH or RUN:PATH, and ./NAME for a file here whose name has a colon"
        raise RefusalError("copy", f"{source} {target}", limit, fix)
    if places[0] is None and not Path(source).exists():
        raise RefusalError("source", source, "does not exist", "name a file or a folder of this machine")
    return Copy(source=places[0] or Path(source), target=places[1] or Path(target), replace=replace)


def run_copy(cluster: Cluster, platform: PlatformOutputs, asked: Copy) -> dict[str, Any]:
    """Copy a file or a folder.

    Args:
        cluster: The cluster, in the workloads' namespace.
        platform: Whose volumes they are.
        asked: What is copied.

    Returns:
        `path` that was written, and `bytes` and `sha256` of the archive that both sides agree on.

    Raises:
        RefusalError: the source does not exist, the target does, no pod could run, or the connection was lost.
    """
    place = asked.source if isinstance(asked.source, Place) else asked.target
    assert isinstance(place, Place)
    with VolumePods(cluster, platform) as pods:
        return pods.through(place, lambda prefix: _copied(prefix, asked))


class VolumePods(AbstractContextManager["VolumePods"]):
    """The pods that reach the volumes: those of runs, and one more that is started when it is needed, and then ends."""

    def __init__(self, cluster: Cluster, platform: PlatformOutputs) -> None:
        self._cluster, self._platform = cluster, platform
        self._started: str | None = None
        self._own: list[str] = []

    def __exit__(self, *_: object) -> None:
        """Delete the pod that was started."""
        if self._started is not None:
            self._cluster.delete(JOBS, self._started)

    def through(self, place: Place, work: Callable[[Sequence[str]], Result]) -> Result:
        """Run some work with the words of `kubectl exec` into a pod that mounts a place, and return its result.

        Raises:
            RefusalError: no pod could run, or none can run Python.
        """
        own = _pod_of(self._cluster, place)
        if own is not None:
            try:
                return work(exec_words(self._cluster, own))
            except NoGreetingError as error:
                sys.stderr.write(f"the pod of {place.run} cannot be used ({error}); another pod is started\n")
        if not self._own:
            self._started = self._cluster.create(job_manifest(self._platform))
            self._own = exec_words(self._cluster, _started(self._cluster, self._started))
        try:
            return work(self._own)
        except NoGreetingError as error:
            image, fix = self._platform.trainer_image, "use an image of the platform with Python in it"
            raise RefusalError("pod of the copy", image, f"cannot run it: {error}", fix) from None


def _copied(prefix: Sequence[str], asked: Copy) -> dict[str, Any]:
    if isinstance(asked.source, Place):
        assert isinstance(asked.target, Path)
        return download(prefix, asked.source.path, asked.target, replace=asked.replace)
    assert isinstance(asked.target, Place)
    return upload(prefix, asked.source, asked.target.path, replace=asked.replace)


def place_of(text: str, job_of_run: Callable[[str], tuple[str, str]]) -> Place | None:
    """Return the place of what is in a volume; None for a path of this machine.

    Raises:
        RefusalError: the path leaves its volume, or the run does not exist.
    """
    head, colon, tail = text.partition(":")
    if not colon or "/" in head or head in {"", ".", ".."}:
        return None
    inside = PurePosixPath(tail)
    if inside.is_absolute() or ".." in inside.parts:
        limit = "would leave the volume"
        raise RefusalError("copy", text, limit, "write a path relative to the volume's top, without ..")
    if head in VOLUMES:
        return Place(path=str(PurePosixPath(VOLUMES[head]) / inside))
    job_name, folder = job_of_run(head)
    return Place(path=str(PurePosixPath(OUTPUT_PATH) / folder / inside), run=head, job_name=job_name)


def folder_of(cluster: Cluster, job_name: str) -> str:
    """Return the folder of a job's files in the volume `output`; of one that is gone, its name."""
    job = cluster.find(JOBS, job_name)
    return job_name if job is None else output_folder(job)


def _pod_of(cluster: Cluster, place: Place) -> dict[str, Any] | None:
    """Return a pod of the run whose container is ready to run another program."""
    if place.run is None:
        return None
    return started_pod(cluster, place.job_name)


def _started(cluster: Cluster, name: str) -> dict[str, Any]:
    """Wait for the pod and return it."""
    for poll in range(int(_WAIT_SECONDS / _POLL_SECONDS)):
        ready = started_pod(cluster, name)
        if ready is not None:
            return ready
        if phase_of(job_of(cluster, name)) in ENDED:
            break
        if poll == 0:
            sys.stderr.write("waiting for a pod that mounts the volumes\n")
        time.sleep(_POLL_SECONDS)
    job = job_of(cluster, name)
    limit = f"did not run in {_WAIT_SECONDS} s: its job is {phase_of(job)}. {message_of(job)}".strip()
    raise RefusalError("pod of the copy", name, limit, "check that the queue has free resources, and try again")


def job_manifest(platform: PlatformOutputs) -> dict[str, Any]:
    """Return the job whose pod mounts the volumes, writable."""
    container = Container(
        name="copy",
        image=platform.trainer_image,
        command=["python3", "-c", _KEEP],
        resources=Resources(cpu="100m", memory="256Mi"),
        writes_data=True,
    )
    claims = Claims(data=platform.data_claim, output=platform.output_claim)
    spec = pod_spec(container, claims, grace_period_seconds=1, gpus=GpuAccess())
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"generateName": "copy-", "namespace": platform.namespace},
        "spec": {
            "schedulerName": "volcano",
            "queue": platform.queue,
            "minAvailable": 1,
            "maxRetry": 1,
            # Whatever became of the command that started it, and with the job its pod.
            "ttlSecondsAfterFinished": 60,
            "tasks": [{"name": "copy", "replicas": 1, "template": {"spec": {**spec, "restartPolicy": "Never"}}}],
        },
    }
