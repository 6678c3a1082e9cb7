"""Restarts of a job's pods: the ones that count as failures of the program, and Volcano's policies for them.

Volcano 1.14.1 has one counter for all causes: each of its actions that restarts a job increments retryCount
(pkg/controllers/job/state/running.go and pending.go; resuming one, too: aborted.go). A policy sees only a pod's exit
code. So the shell that runs a program counts its failures, and its exit code selects the policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.job_pods import NOT_AGAIN_EXIT_STATUS, RESTART_EXIT_STATUS, STOPPED_EXIT_STATUS
from workloads.pods import OUTPUT_PATH

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from workloads.roles import Restart

LOSSES = 100
"""Most restarts of a job because of pods that were taken away, which the program has no part in. The limit is
for those that are lost again and again, such as pods that never pass their liveness probe."""
PLATFORM_PROGRAM_RESTARTS = 10
"""Restarts of the platform's own programs, which continue from their checkpoints, and of elastic jobs."""
RESTARTS_VARIABLE = "ATHANOR_RESTARTS"
"""Variable with how often all pods of the job were started again, whatever the cause."""
_RESTARTS_ANNOTATION = "volcano.sh/job-version"
"""Volcano raises it each time that it ends all pods (killPods in job_controller_actions.go)."""
_WAIT_SECONDS = 5
"""Between a failure and the end of its pod. A program whose peer was taken away fails as well, a moment before all pods
are asked to end for that reason; and readers of the log need a moment, because the pod may be deleted."""
_PAUSE_SECONDS = 2
_MARGIN_SECONDS = 3
"""Before the kubelet kills a pod that was asked to end, its program is killed, so that the pod still ends with 143."""

_AGAIN_ALONE: tuple[Manifest, ...] = (
    # Tried in this order. A pod that is taken away comes into the phase Failed before it is gone; then Volcano makes it
    # again without counting (syncJob in job_controller_actions.go), and that one's start cancels this action.
    {"exitCode": STOPPED_EXIT_STATUS, "action": "RestartPod", "timeout": "1h0m0s"},
    # none for PodEvicted: every Restart… would use up a restart
)
_NOT_AGAIN: Manifest = {"exitCode": NOT_AGAIN_EXIT_STATUS, "action": "TerminateJob"}
RESTART_ALONE: tuple[Manifest, ...] = (
    *_AGAIN_ALONE,
    _NOT_AGAIN,
    {"event": "PodFailed", "action": "RestartPod"},
)
"""For pods that the others can do without, and whose failures Volcano counts: those of an elastic job."""
RESTART_TOGETHER: tuple[Manifest, ...] = (
    {"event": "PodEvicted", "action": "RestartJob"},
    _NOT_AGAIN,
    {"event": "PodFailed", "action": "RestartJob"},
)
"""For pods of the platform's own that all others need: whatever ends them, all start again."""
_FAIL: Manifest = {"event": "PodFailed", "action": "TerminateJob"}
"""Ends the other pods, and keeps those that have ended, with their exit codes and logs."""


def alone(*, others_need_it: bool) -> tuple[Manifest, ...]:
    """Return the policies of pods that start again alone; the shell in them repeats a program that fails.

    Args:
        others_need_it: Whether the job is over once one of them has failed for good.
    """
    return (*_AGAIN_ALONE, *([_FAIL] if others_need_it else []))


def together(*, pods: int) -> tuple[Manifest, ...]:
    """Return the policies of ranks: they wait for each other in every step, so all start again from the checkpoint.

    Args:
        pods: Of the whole job. One that is the only one needs no policy to end as Failed.
    """
    again = (
        {"event": "PodEvicted", "action": "RestartJob"},
        {"exitCode": STOPPED_EXIT_STATUS, "action": "RestartJob"},
        {"exitCode": RESTART_EXIT_STATUS, "action": "RestartJob"},
    )
    return (*again, *([_FAIL] if pods > 1 else []))


def once(restart: Restart, *, pods: int, others_need_it: bool) -> tuple[Manifest, ...]:
    """Return the policies of pods that nothing starts again. No action may end a job that deletes pods that have ended.

    Args:
        restart: With which others the pods would start again.
        pods: Of the whole job. One that is the only one needs no policy to end as Failed.
        others_need_it: Whether the job is over once one of them has failed.
    """
    lost: list[Manifest] = [{"event": "PodEvicted", "action": "TerminateJob"}] if restart == "together" else []
    return (*lost, *([_FAIL] if others_need_it and pods > 1 else []))


def restarts_variable() -> Manifest:
    """Return the variable RESTARTS_VARIABLE of a container."""
    field = {"fieldPath": f"metadata.annotations['{_RESTARTS_ANNOTATION}']"}
    return {"name": RESTARTS_VARIABLE, "valueFrom": {"fieldRef": field}}


def run_alone(restarts: int, grace_period_seconds: int) -> str:
    """Return the shell's text that runs its arguments in a pod that starts again alone.

    Args:
        restarts: How often it runs them again, in the same pod, after they failed.
        grace_period_seconds: Of the pod.
    """
    if not restarts:
        return f"{_trap(grace_period_seconds)}{_RUN}{_FAILED}"
    said = f"attempt $tried of {restarts + 1} ended with exit code $status"
    return (
        f"{_trap(grace_period_seconds)}tried=1; while :; do {_RUN}"
        f'[ "$tried" -le {restarts} ] && {_MAY_HELP} || break; {_say(f"{said}; starting again")}'
        f"{_sleep(_PAUSE_SECONDS)}tried=$((tried + 1)); done; {_say(f'{said}, the last one')}{_FAILED}"
    )


def run_together(restarts: int, grace_period_seconds: int, *, pods: int) -> str:
    """Return the shell's text that runs its arguments in a pod whose failure concerns all pods of the job.

    Failures are counted by files on the volume, one for each start of all pods in which there was any.

    Args:
        restarts: After how many failures all pods start again.
        grace_period_seconds: Of the pod.
        pods: Of the whole job.
    """
    wait = _sleep(_WAIT_SECONDS) if restarts or pods > 1 else ""
    if not restarts:
        return f"{_trap(grace_period_seconds)}{_RUN}{wait}{_FAILED}"
    folder = f'"{OUTPUT_PATH}/.failures-$ATHANOR_JOB"'
    said = f"attempt $# of {restarts + 1} ended with exit code $status"
    return (
        f'[ "${RESTARTS_VARIABLE}" != 0 ] || rm -rf {folder}; {_trap(grace_period_seconds)}{_RUN}{wait}'
        f'mkdir -p {folder} && : > {folder}/"${RESTARTS_VARIABLE}" || exit 1; set -- {folder}/*; '
        f'if [ "$#" -le {restarts} ] && {_MAY_HELP}; then '
        f"{_say(f'{said}; all pods start again')}exit {RESTART_EXIT_STATUS}; fi; "
        f"{_say(f'{said}, the last one')}{_FAILED}"
    )


def _trap(grace_period_seconds: int) -> str:
    """Return the trap that passes SIGTERM on to the program, which as the first process of its pod would ignore it.

    Only to one that runs: what this starts in the background would else be taken for the program, or be waited for.
    """
    kill = f'{{ sleep {grace_period_seconds - _MARGIN_SECONDS}; kill -KILL "$child"; }} 2>/dev/null &'
    end = f'athanor_end() {{ if kill -TERM "$child" 2>/dev/null; then {kill} fi; }}; '
    return f"""asked= child=; {end}trap 'asked=1; [ -z "$child" ] || athanor_end' TERM; """


def _say(words: str) -> str:
    return f'echo "athanor: {words}" >&2; '


def _sleep(seconds: int) -> str:
    return f'sleep {seconds} & wait "$!"; [ -z "$asked" ] || exit {STOPPED_EXIT_STATUS}; '


_MAY_HELP = f'[ "$status" != {NOT_AGAIN_EXIT_STATUS} ]'
# A wait that a signal interrupts returns although the program still runs.
_RUN = (
    '"$@" & child=$!; [ -z "$asked" ] || athanor_end; '
    'wait "$child"; status=$?; while kill -0 "$child" 2>/dev/null; do wait "$child"; status=$?; done; '
    f'[ "$status" != 0 ] || exit 0; [ -z "$asked" ] || exit {STOPPED_EXIT_STATUS}; '
)
_FAILED = (
    f'case "$status" in {STOPPED_EXIT_STATUS}|{RESTART_EXIT_STATUS}) '
    'echo "athanor: the program ended with exit code $status without being asked to end" >&2; exit 1;; esac; '
    'exit "$status"'
)
"""The two numbers mean something else for a pod."""
