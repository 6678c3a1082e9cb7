"""`athanor copy`: files between this machine and the platform's volumes, also of runs whose pods are gone.

A job of one small pod mounts the volumes while it lasts. It is a job, not a bare pod, so that it needs no other rights
than a run and counts in the queue.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from athanor.runs import tar_stream
from athanor.runs.job import ENDED, JOBS, job_of, main_container, phase_of, readable_pods
from infra.errors import RefusalError
from workloads.pods import DATA_PATH, OUTPUT_PATH, Claims, Container, GpuAccess, pod_spec
from workloads.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from athanor.runs.cluster import Cluster
    from infra.outputs import PlatformOutputs

VOLUMES = {"data": DATA_PATH, "output": OUTPUT_PATH}
_LONGEST_SECONDS = 6 * 3600
"""After which the pod ends by itself, whatever became of the command that started it."""
_WAIT_SECONDS = 300
_POLL_SECONDS = 1.0
_PROGRAM = Path(tar_stream.__file__).read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Copy:
    """What is copied where."""

    source: str
    """A path of this machine, or one of a volume: data:PATH, output:PATH, or RUN:PATH for what a run wrote."""
    target: str
    """The same. A folder of this machine that exists gets the copy inside it, under the source's name."""
    replace: bool
    """Whether the target may exist."""


def run_copy(cluster: Cluster, platform: PlatformOutputs, asked: Copy, folder_of: Callable[[str], str]) -> str:
    """Copy a file or a folder from or to a volume; return what was written.

    Args:
        cluster: The cluster, in the workloads' namespace.
        platform: Whose volumes they are.
        asked: What is copied.
        folder_of: Returns the folder of a run in the volume `output`.

    Raises:
        RefusalError: not exactly one of the two is in a volume, one does not exist, or the target does.
    """
    remote, other = remote_path(asked.source, folder_of), remote_path(asked.target, folder_of)
    if (remote is None) == (other is None):
        limit = "exactly one of source and target must be in a volume"
        raise RefusalError("copy", f"{asked.source} {asked.target}", limit, "write data:PATH, output:PATH or RUN:PATH")
    if remote is not None:
        local = _local_target(Path(asked.target), PurePosixPath(remote).name, replace=asked.replace)
        with _pod(cluster, platform) as prefix:
            _download(prefix, remote, local, replace=asked.replace)
        return str(local)
    if not Path(asked.source).exists():
        raise RefusalError("source", asked.source, "does not exist", "name a file or a folder of this machine")
    with _pod(cluster, platform) as prefix:
        _upload(prefix, Path(asked.source), str(other), replace=asked.replace)
    return asked.target


def remote_path(text: str, folder_of: Callable[[str], str]) -> str | None:
    """Return the path in the pod of what is in a volume; None for a path of this machine.

    Raises:
        RefusalError: it would leave the volume.
    """
    head, colon, tail = text.partition(":")
    if not colon or "/" in head or head in {"", ".", ".."}:
        return None
    inside = PurePosixPath(tail)
    if inside.is_absolute() or ".." in inside.parts:
        limit = "would leave the volume"
        raise RefusalError("copy", text, limit, "write a path relative to the volume's top, without ..")
    top = VOLUMES.get(head) or f"{OUTPUT_PATH}/{folder_of(head)}"
    return str(PurePosixPath(top) / inside)


def _local_target(target: Path, name: str, *, replace: bool) -> Path:
    chosen = target / name if target.is_dir() else target
    if chosen.exists() and not replace:
        raise RefusalError("target", str(chosen), "exists", "name another, or replace it with --replace")
    return chosen


def _download(prefix: list[str], path: str, target: Path, *, replace: bool) -> None:
    words = [*prefix, "python3", "-c", _PROGRAM, "send", path]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as sending:
        assert sending.stdout
        assert sending.stderr
        try:
            tar_stream.receive(target, sending.stdout, replace=replace)
        except (tarfile.ReadError, SystemExit):
            sending.terminate()
            raise _failure(path, sending.stderr.read()) from None


def _upload(prefix: list[str], source: Path, path: str, *, replace: bool) -> None:
    words = [*prefix, "python3", "-c", _PROGRAM, "receive", path, str(int(replace))]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as taking:
        assert taking.stdin
        assert taking.stderr
        with suppress(BrokenPipeError):  # what the other side says is the reason
            tar_stream.send(source, taking.stdin)
            taking.stdin.close()
        said = taking.stderr.read()
    if taking.returncode:
        raise _failure(path, said)


def _failure(path: str, said: bytes) -> RefusalError:
    lines = said.decode(errors="replace").strip().splitlines() or ["the pod ended early"]
    said_of_path = next((line for line in lines if path in line), lines[-1]).removeprefix(path).strip()
    return RefusalError("copy", path, said_of_path, "look with `athanor shell`, or replace what exists with --replace")


@contextmanager
def _pod(cluster: Cluster, platform: PlatformOutputs) -> Generator[list[str]]:
    """Yield the words of a command that runs in a pod with the volumes, as long as the pod is needed."""
    name = cluster.create(job_manifest(platform))
    try:
        pod = _running(cluster, name)
        words = ["exec", "--stdin", f"--container={main_container(pod)}", pod["metadata"]["name"], "--"]
        yield [*cluster.prefix, *words]
    finally:
        cluster.delete(JOBS, name)


def _running(cluster: Cluster, name: str) -> dict[str, Any]:
    """Wait for the pod and return it."""
    for poll in range(int(_WAIT_SECONDS / _POLL_SECONDS)):
        pods = [pod for pod in readable_pods(cluster, name) if pod["status"]["phase"] == "Running"]
        if pods:
            return pods[0]
        phase = phase_of(job_of(cluster, name))
        if phase in ENDED:
            break
        if poll == 0:
            sys.stderr.write("waiting for a pod that mounts the volumes\n")
        time.sleep(_POLL_SECONDS)
    limit = f"did not run in {_WAIT_SECONDS} s: its job is {phase_of(job_of(cluster, name))}"
    raise RefusalError("pod of the copy", name, limit, "see whether the queue has room, and try again")


def job_manifest(platform: PlatformOutputs) -> dict[str, Any]:
    """Return the job whose pod mounts the volumes, writable."""
    keep = f"import time; time.sleep({_LONGEST_SECONDS})"
    container = Container(
        name="copy",
        image=platform.trainer_image,
        command=["python3", "-c", keep],
        resources=Resources(cpu="100m", memory="256Mi"),
        writes_data=True,
    )
    spec = pod_spec(
        container,
        Claims(data=platform.data_claim, output=platform.output_claim),
        grace_period_seconds=1,
        gpus=GpuAccess(),
    )
    template = {"spec": {**spec, "activeDeadlineSeconds": _LONGEST_SECONDS, "restartPolicy": "Never"}}
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
            "tasks": [{"name": "copy", "replicas": 1, "template": template}],
        },
    }
