"""Causes in a job's containers: images, configuration, init containers, crashes, volumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.inspection.control_characters import shortened
from athanor.inspection.jobs import logical_name, short_name
from athanor.inspection.objects import Object, Snapshot, last_event, name_of, node_of, phase_of
from infra.images import TRAINER_FRAMEWORKS, TRAINER_REPOSITORIES
from infra.kubernetes.quantities import quantity_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from athanor.inspection.commands import Commands

# Source: k8s.io/kubernetes, pkg/kubelet/images/types.go and pkg/kubelet/kuberuntime/kuberuntime_container.go.
_IMAGE_REASONS = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
_START_REASONS = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError"}
_MOUNT_EVENTS = ("FailedMount", "FailedAttachVolume")
_ON_THE_WAY = {"PodInitializing", "ContainerCreating"}
_KILLED, _TERMINATED = 137, 143


@dataclass(frozen=True, kw_only=True)
class LogReference:
    """The log that says more."""

    pod: str
    container: str
    previous: bool = False
    """Whether it is the log of the run before the present one."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The cause why a job does not run, and the next step."""

    cause: str
    """One word, for programs."""
    because: str
    next_step: str
    log: LogReference | None = None
    exit_code: int | None = None
    """Exit code of the program that failed."""

    @property
    def sentence(self) -> str:
        """The one sentence."""
        return f"{self.because}; next: {self.next_step}."


@dataclass(frozen=True, kw_only=True)
class Status:
    """One container's status in one pod."""

    pod: Object
    status: Object
    init: bool

    @property
    def name(self) -> str:
        """The container's name."""
        return self.status["name"]

    @property
    def waiting(self) -> Object:
        """State `waiting`: reason and message; empty in any other state."""
        return self.status.get("state", {}).get("waiting") or {}

    @property
    def hindrance(self) -> str | None:
        """The reason why it waits, if that does not resolve by itself."""
        reason = self.waiting.get("reason")
        return None if reason in _ON_THE_WAY else reason

    @property
    def exit(self) -> Object:
        """Its last failure, now or in the previous run; empty if it never failed."""
        for state in ("state", "lastState"):
            ended: Object = self.status.get(state, {}).get("terminated") or {}
            if ended.get("exitCode", 0) != 0:
                return ended
        return {}

    @property
    def memory_limit(self) -> str | None:
        """Memory above which it is killed; None without a limit."""
        return memory_limit(self.pod["spec"], self.name)

    @property
    def log(self) -> LogReference:
        """The log with its last lines."""
        ended_now = bool(self.status.get("state", {}).get("terminated"))
        return LogReference(pod=name_of(self.pod), container=self.name, previous=bool(self.exit) and not ended_now)


def memory_limit(spec: Object, name: str) -> str | None:
    """Return the memory above which a container of a pod is killed; None without a limit."""
    containers = [*spec.get("initContainers", []), *spec.get("containers", [])]
    limits = [each.get("resources", {}).get("limits", {}) for each in containers if each.get("name") == name]
    return limits[0].get("memory") if limits else None


def statuses(pods: Sequence[Object]) -> Iterator[Status]:
    """Yield every container of the pods, init containers first."""
    for pod in pods:
        for field, init in (("initContainerStatuses", True), ("containerStatuses", False)):
            for status in pod.get("status", {}).get(field, []):
                yield Status(pod=pod, status=status, init=init)


def state_words(pod: Object) -> str:
    """Return what a pod waits for or how it ended, in a few words, for a table."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for each in statuses([pod]):
        ended: Object = each.status.get("state", {}).get("terminated") or {}
        if ended.get("exitCode"):
            return f"{each.name}: {ended.get('reason', 'Error')} (exit {ended['exitCode']})"
        if each.hindrance:
            return f"{each.name}: {each.hindrance}"
        if each.init and (each.status.get("state", {}).get("running")):
            return f"init {each.name}"
    phase = phase_of(pod) or "Unknown"
    if phase == "Pending":
        return "starting" if node_of(pod) else "waiting for a node"
    return phase


def image_trouble(job: Object, pods: Sequence[Object], *, local: bool) -> Finding | None:
    """Say which image cannot be pulled."""
    for each in statuses(pods):
        if each.waiting.get("reason") in _IMAGE_REASONS:
            image = each.status.get("image") or "?"
            said = shortened(each.waiting.get("message") or each.waiting["reason"])
            return Finding(
                cause="image",
                because=f"the image {image} of {short_name(each.pod, job)} cannot be pulled ({said})",
                next_step=_image_fix(image, local=local),
            )
    return None


def _image_fix(image: str, *, local: bool) -> str:
    frameworks = {repository: TRAINER_FRAMEWORKS[name] for name, repository in TRAINER_REPOSITORIES.items()}
    framework = frameworks.get(image.rpartition(":")[0])
    if framework and local:
        return f"build it into the local cluster with `make image FRAMEWORK={framework}`"
    if framework:
        return "push it to a registry that the nodes can reach and set it under athanor:images"
    return "check the name and the tag, push the image, and make sure that the nodes can pull from its registry"


def start_trouble(job: Object, pods: Sequence[Object], commands: Commands) -> Finding | None:
    """Say which container cannot be created: a Secret or ConfigMap it names is missing, its command does not exist."""
    for each in statuses(pods):
        if each.waiting.get("reason") in _START_REASONS:
            said = shortened(each.waiting.get("message") or each.waiting["reason"])
            return Finding(
                cause="config",
                because=f"container {each.name} of {short_name(each.pod, job)} cannot be started ({said})",
                next_step=f"create what is missing, or correct the job and {commands.update}",
            )
    return None


def crash(job: Object, pods: Sequence[Object], commands: Commands) -> Finding | None:
    """Say which container ends badly, again and again or for good: of several the one that was the first."""
    failed = [each for each in statuses(pods) if each.exit]
    if not failed:
        return None
    first = min(failed, key=lambda each: each.exit.get("finishedAt") or "")
    restarts = first.status.get("restartCount", 0)
    looping = first.waiting.get("reason") == "CrashLoopBackOff"
    often = f", {restarts} restarts so far" if restarts else ""
    what = "init container" if first.init else "container"
    verb = "keeps failing" if looping or restarts else "failed"
    return Finding(
        cause="init-failed" if first.init else "crash",
        because=f"{what} {first.name} of {short_name(first.pod, job)} {verb} ({exit_words(first.exit)}{often})",
        next_step=_exit_fix(first, commands, logical_name(job)),
        log=first.log,
        exit_code=first.exit["exitCode"],
    )


def exit_words(ended: Object) -> str:
    """Return how a container ended."""
    reason = ended.get("reason", "Error")
    said = f": {shortened(ended['message'])}" if ended.get("message") else ""
    return f"exit code {ended['exitCode']}{'' if reason == 'Error' else f', {reason}'}{said}"


def _exit_fix(failed: Status, commands: Commands, name: str) -> str:
    if failed.exit.get("reason") == "OOMKilled":
        return _more_memory(failed.memory_limit, commands, name)
    if failed.exit["exitCode"] in {_KILLED, _TERMINATED}:
        rerun = commands.rerun.format(name)
        return f"it was killed from outside: look at the node and at `kubectl get events`; `{rerun}` runs it again"
    return _correction(commands, name)


def _more_memory(limit: str | None, commands: Commands, name: str) -> str:
    more = f" to {_doubled(limit)}" if limit else ""
    had = f", it had {limit}" if limit else ""
    again = commands.new_code.format(name)
    return f"raise {commands.memory}{more} (/dev/shm counts towards it{had}), or use less, then {again}"


def _correction(commands: Commands, name: str) -> str:
    return f"read its log (`{commands.logs.format(name)}`), correct the program, then {commands.new_code.format(name)}"


def failure_and_fix(exit_code: int, limit: str | None, commands: Commands, name: str) -> tuple[str, str]:
    """Return how a program ended whose pod is gone, and what helps.

    Args:
        exit_code: Of the program.
        limit: The memory that its container had at most.
        commands: Those of the user.
        name: The job's.
    """
    if exit_code == _KILLED:
        return (f"exit code {_KILLED}, killed, as by a lack of memory", _more_memory(limit, commands, name))
    return (f"exit code {exit_code}", _correction(commands, name))


def _doubled(memory: str) -> str:
    mebibytes = -(-2 * quantity_value(memory) // 2**20)
    return f"{mebibytes // 1024}Gi" if mebibytes % 1024 == 0 else f"{mebibytes}Mi"


def mount_trouble(job: Object, snapshot: Snapshot, pods: Sequence[Object]) -> Finding | None:
    """Say which volume a node cannot mount."""
    for pod in pods:
        if phase_of(pod) == "Pending" and node_of(pod) and (said := last_event(snapshot, pod, *_MOUNT_EVENTS)):
            return Finding(
                cause="volume",
                because=f"{node_of(pod)} cannot mount a volume of {short_name(pod, job)} ({shortened(said)})",
                next_step="create what the message names, or check whether the node can reach the storage",
            )
    return None


def init_wait(job: Object, pods: Sequence[Object]) -> Finding | None:
    """Say which init container has not finished."""
    for each in statuses(pods):
        if each.init and each.status.get("state", {}).get("running"):
            started = each.status["state"]["running"].get("startedAt")
            return Finding(
                cause="init",
                because=f"{short_name(each.pod, job)} is still in its init container {each.name}"
                + (f" (since {started})" if started else "")
                + _waits_for(each, job, pods),
                next_step="wait for it; its last lines show its progress",
                log=each.log,
            )
    return None


def _waits_for(each: Status, job: Object, pods: Sequence[Object]) -> str:
    """Name what an init container of ours waits for."""
    if "host" in each.name:
        others = [pod for pod in pods if phase_of(pod) not in {"Running", "Succeeded"} and pod is not each.pod]
        names = ", ".join(short_name(pod, job) for pod in others[:5])
        return f", which waits for the other pods ({names} not running yet)" if names else ", which waits for hosts"
    if "source" in each.name or "git" in each.name:
        return ", which waits for the code that the job's source pod fetches from git"
    return ""
