"""The reason why a job does not run, in one sentence with a next step: one pure function per cause, by weight."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from athanor.inspection import why_no_node
from athanor.inspection.containers import (
    Finding,
    crash,
    image_trouble,
    init_wait,
    mount_trouble,
    start_trouble,
    statuses,
)
from athanor.inspection.control_characters import shortened
from athanor.inspection.jobs import ENDED, is_overlooked, job_phase, restarts, short_name, since
from athanor.inspection.objects import events_of, last_event, name_of, node_of, phase_of, when

if TYPE_CHECKING:
    from collections.abc import Callable

    from athanor.inspection.case import Case
    from athanor.inspection.objects import Object

_CONTROLLER_EVENTS = ("PluginError", "PVCError", "PodGroupError", "JobStatusError")
_EXCEEDED = re.compile(r"exceeded quota: ([^,]+), (requested: .*?, used: .*?, limited: [^\s\]]+)")
_STATUS_MESSAGE = re.compile(r'v1\.Status\{.*?\bMessage:"((?:[^"\\]|\\.)*)"', re.DOTALL)
"""Message in Go's `%#v` form of an API error (Volcano 1.14, pkg/controllers/job/job_controller_actions.go)."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_DEADLINE = "DeadlineExceeded"
"""Reason of a pod that ran for longer than it may (k8s.io/kubernetes, pkg/kubelet/active_deadline.go)."""
_GO_CHARACTERS = {"n": "\n", "t": "\t"}
_LONGEST_REFUSAL = 600
"""Each field that the API server refuses is named in it, with its value."""
_NOT_YET_BOUND = {"WaitForFirstConsumer", "WaitForPodScheduled"}
"""Events of a claim that is bound only once a pod has a node: it keeps nobody waiting."""


def why(case: Case) -> Finding:
    """Return the first cause that holds; there is always one."""
    for cause in _CAUSES:
        if finding := cause(case):
            return finding
    return _starting(case)


def ended(case: Case) -> Finding | None:
    """Say that the job is over: when, how, and how it runs again."""
    phase, at = job_phase(case.job), when(since(case.job))
    again = f"`{case.rerun_command}` runs it again"
    if phase == "Completed":
        return Finding(cause="completed", because=f"{case.name} completed at {at}", next_step=again)
    if phase not in ENDED:
        return None
    if phase == "Aborted":
        step = f"`{case.resume_command}` continues it"
        return Finding(cause="aborted", because=f"{case.name} was stopped at {at}", next_step=step)
    # Its containers were killed, which says nothing of the program.
    late = _after_deadline(case)
    last = None if late else crash(case.job, case.pods, case.commands)
    said = f": {last.because}" if last else _pod_reason(case) or _said(case.job["status"]["state"])
    new_code = case.commands.new_code.format(case.name)
    step = f"read `{case.logs_command}`; {again} as it was, and after a correction {new_code}"
    if late:
        step = f"raise its time limit or reduce its work, then {new_code}"
    return Finding(
        cause="failed",
        because=f"{case.name} failed at {at}{_often(case, ' after {}')}{said}",
        next_step=last.next_step if last else step,
        log=last.log if last else None,
        exit_code=last.exit_code if last else None,
    )


def _often(case: Case, words: str) -> str:
    """Return words with how often the job was started again; nothing if it was not."""
    count = restarts(case.job)[0]
    return words.format("1 restart" if count == 1 else f"{count} restarts") if count else ""


def _said(state: Object) -> str:
    return f": {shortened(state['message'])}" if state.get("message") else ""


def _after_deadline(case: Case) -> bool:
    return any(phase_of(pod) == "Failed" and pod["status"].get("reason") == _DEADLINE for pod in case.pods)


def _pod_reason(case: Case) -> str:
    """Name what ended a pod as a whole: an eviction, a deadline."""
    for pod in case.pods:
        if phase_of(pod) == "Failed" and (reason := pod["status"].get("reason")):
            return f": {short_name(pod, case.job)} ended with {reason}{_said(pod['status'])}"
    return ""


def leaving(case: Case) -> Finding | None:
    """Say that the job is being deleted or stopped."""
    phase = job_phase(case.job)
    if case.job["metadata"].get("deletionTimestamp"):
        because = f"{case.name} is being deleted and {len(case.pods)} of its pods are still there"
        return Finding(cause="deleting", because=because, next_step="wait until their grace period is over")
    if phase in {"Aborting", "Terminating", "Completing"}:
        because = f"{case.name} is {phase.lower()} and {len(case.pods)} of its pods are still there"
        return Finding(cause="stopping", because=because, next_step="wait until their grace period is over")
    return None


def running(case: Case) -> Finding | None:
    """Say that nothing is wrong."""
    expected = sum(role.replicas for role in case.roles)
    have = sum(phase_of(pod) in {"Running", "Succeeded"} for pod in case.pods)
    troubled = any(each.waiting for each in statuses(case.pods))
    if job_phase(case.job) != "Running" or have < expected or troubled:
        return None
    often = _often(case, ", after {}")
    because = f"{case.name} is running: {have} of {expected} pods since {when(since(case.job))}{often}"
    return Finding(cause="running", because=because, next_step=f"`{case.logs_command}` shows what it prints")


def not_created(case: Case) -> Finding | None:
    """Say why pods, or all that comes before them, cannot be created."""
    expected = sum(role.replicas for role in case.roles)
    if len(case.pods) >= expected:
        return None
    if refused := last_event(case.snapshot, case.job, "FailedCreate"):
        return _refused(case, _api_servers_words(refused), expected)
    if said := last_event(case.snapshot, case.job, *_CONTROLLER_EVENTS):
        because = f"Volcano's controller cannot prepare {case.name} ({shortened(said)})"
        return Finding(cause="controller", because=because, next_step=f"correct the job, then {case.commands.update}")
    if job_phase(case.job) == "accepted" and case.group is None:
        because = f"{case.name} is accepted, but Volcano's controller has not processed it yet"
        step = (
            "ask again in a few seconds; if this persists, check that `kubectl get pods -n volcano-system` are Running"
        )
        return Finding(cause="accepted", because=because, next_step=step)
    return None


def _api_servers_words(said: str) -> str:
    """Return the API server's message; the controller's event may hold its whole answer as Go has it."""
    match = _STATUS_MESSAGE.search(said)
    if match is None:
        return said
    return _ESCAPED.sub(lambda each: _GO_CHARACTERS.get(each.group(1), each.group(1)), match.group(1))


def _refused(case: Case, said: str, expected: int) -> Finding:
    missing = f"{expected - len(case.pods)} of {expected} pods of {case.name} cannot be created"
    if quota := _EXCEEDED.search(said):
        because = f"{missing}: quota {quota.group(1)!r} of namespace {case.namespace!r} is exceeded ({quota.group(2)})"
        step = "wait for other jobs of the namespace, request less, or have the quota raised"
        return Finding(cause="quota", because=because, next_step=step)
    if "violates PodSecurity" in said:
        because = f"{missing}: the namespace's Pod Security level forbids them ({shortened(said)})"
        step = "use what the level allows, or set pod_security for the namespace"
        return Finding(cause="security", because=because, next_step=step)
    because = f"{missing}: the API server refuses them ({shortened(said, _LONGEST_REFUSAL)})"
    return Finding(cause="refused", because=because, next_step=f"correct the job, then {case.commands.update}")


def volumes(case: Case) -> Finding | None:
    """Say which volume is missing or not bound."""
    there = {name_of(claim): claim for claim in case.snapshot.claims}
    for role in case.roles:
        for volume in role.template.get("volumes", []):
            name = volume.get("persistentVolumeClaim", {}).get("claimName")
            if name is None:
                continue
            if name not in there:
                because = f"{role.name} mounts the volume {name!r}, which namespace {case.namespace!r} does not have"
                step = "create the PersistentVolumeClaim, or use one of " + (", ".join(sorted(there)) or "(none)")
                return Finding(cause="volume", because=because, next_step=step)
            claim = there[name]
            events = events_of(case.snapshot, claim)
            if phase_of(claim) == "Bound" or any(event.get("reason") in _NOT_YET_BOUND for event in events):
                continue
            said = f" ({shortened(events[-1].get('message', ''))})" if events else ""
            because = f"the volume {name!r} of {role.name} is {phase_of(claim) or 'Pending'}, not Bound{said}"
            step = "check whether its StorageClass exists and can create such a volume"
            return Finding(cause="volume", because=because, next_step=step)
    return None


def images(case: Case) -> Finding | None:
    """Say which image cannot be pulled."""
    return image_trouble(case.job, case.pods, local=case.local)


def starts(case: Case) -> Finding | None:
    """Say which container cannot be created."""
    return start_trouble(case.job, case.pods, case.commands)


def crashes(case: Case) -> Finding | None:
    """Say which container fails."""
    return crash(case.job, case.pods, case.commands)


def mounts(case: Case) -> Finding | None:
    """Say which volume a node cannot mount."""
    return mount_trouble(case.job, case.snapshot, case.pods)


def restarting(case: Case) -> Finding | None:
    """Say that the previous pods are still ending."""
    going = [pod for pod in case.pods if pod["metadata"].get("deletionTimestamp")]
    if job_phase(case.job) != "Restarting" and not going:
        return None
    because = f"{case.name} is restarting{_often(case, ' ({})')}, and {len(going)} of its pods are terminating"
    step = f"wait; `{case.logs_command}` shows what the pods printed while they still exist"
    return Finding(cause="restarting", because=because, next_step=step)


def inits(case: Case) -> Finding | None:
    """Say which init container has not finished."""
    return init_wait(case.job, case.pods)


def overlooked(case: Case) -> Finding | None:
    """Say that nobody creates the pods; last, for the controller also needs a moment for those of any other job."""
    if not is_overlooked(case.job, case.group, case.pods):
        return None
    because = f"{case.name} is admitted, but Volcano's controller has created none of its pods"
    step = f"ask again in a few seconds; if this persists, {case.commands.look_again.format(case.name)}"
    return Finding(cause="overlooked", because=because, next_step=step)


def _starting(case: Case) -> Finding:
    """Say what is left when nothing is wrong that is known here."""
    bound = [pod for pod in case.pods if node_of(pod)]
    expected = sum(role.replicas for role in case.roles)
    often = _often(case, " (after {})")
    if bound:
        nodes = ", ".join(sorted({node_of(pod) for pod in bound})[:3])
        because = (
            f"{len(bound)} of {expected} pods of {case.name} have nodes ({nodes}) and their containers are"
            f" starting{often}"
        )
        step = "ask again in a few seconds; pulling a large image takes minutes (`kubectl get events` shows it)"
        return Finding(cause="starting", because=because, next_step=step)
    because = f"{case.name} waits for Volcano's scheduler, which has not reported anything about it yet"
    step = "ask again in a few seconds; if this persists, check that `kubectl get pods -n volcano-system` are Running"
    return Finding(cause="scheduler", because=because, next_step=step)


_CAUSES: tuple[Callable[[Case], Finding | None], ...] = (
    ended, leaving, running, images, starts, crashes, why_no_node.no_queue, not_created, volumes, mounts, restarting,
    why_no_node.too_much, why_no_node.unmatched, why_no_node.quota, why_no_node.queue_limit, why_no_node.no_room,
    why_no_node.behind, why_no_node.enqueue, inits, why_no_node.unschedulable, overlooked,
)  # fmt: skip
