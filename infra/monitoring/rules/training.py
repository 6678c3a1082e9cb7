"""Rules about training jobs: speed and progress.

Metrics: trainer/training/metrics.py; of restarts and failures kube-state-metrics and Volcano's controller
(pkg/controllers/job/state/metrics.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring.rules.pods import in_phase, of_workload
from infra.monitoring.rules.rule import Alert, Area, Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.alert_thresholds import TrainingThresholds

_JOB = "namespace, workload"
_RANK = "namespace, workload, rank"
_OWN, _STEPS = "workload_rank:own_seconds:mean", "workload_rank:step_seconds:mean"
STRAGGLING = "workload_rank:straggling:ratio"
_FAILURES = "volcano_job_failed_phase_count"
_FAILED, _COMPLETED = "JobFailed", "JobCompleted"
RUN_ENDS = (_COMPLETED, _FAILED)
"""Alerts about the end of a job."""
_NAMED = "{{ $labels.namespace }}/{{ $labels.workload }}"
_WHY = "`make why JOB={{ $labels.workload }}` and `make logs JOB={{ $labels.workload }}` show more."


def area(limits: TrainingThresholds, *, completed: bool) -> Area:
    """Return the rules of training jobs. `completed`: also the one for those that complete."""
    ends = (*_failures(limits), *(_completions(limits) if completed else ()))
    return Area(
        name="training",
        recordings=_recordings(),
        alerts=(*_progress(limits), *_checkpoints(limits), *ends),
    )


def _recordings() -> Sequence[Recording]:
    mean = _rate("step_seconds_sum", _RANK) + " / " + f"({_rate('step_seconds_count', _RANK)} > 0)"
    own = _rate("own_seconds_sum", _RANK) + " / " + f"({_rate('own_seconds_count', _RANK)} > 0)"
    waits = _rate("data_wait_seconds_sum", _RANK) + " / " + f"({_rate('data_wait_seconds_count', _RANK)} > 0)"
    return (
        # Each rank reports the samples of all ranks.
        Recording(
            record="workload:samples_per_second:sum",
            expr=f"max by ({_JOB}) (athanor_training_samples_per_second)",
        ),
        Recording(record=_STEPS, expr=mean),
        # A program that does not measure a rank's own time may at least report the wait for data.
        Recording(record=_OWN, expr=f"{own} or {waits}"),
        Recording(record=STRAGGLING, expr=_straggling()),
        *(
            Recording(
                record=f"workload:step_seconds:p{percent}",
                expr=f"histogram_quantile({percent / 100:g}, {_rate('step_seconds_bucket', f'{_JOB}, le')})",
            )
            for percent in (50, 99)
        ),
        Recording(
            record="workload:data_wait:ratio",
            expr=f"{_rate('data_wait_seconds_sum', _JOB)} / ({_rate('step_seconds_sum', _JOB)} > 0)",
        ),
        Recording(
            record="workload:checkpoint_age_seconds:min",
            expr=f"min by ({_JOB}) (athanor_training_checkpoint_age_seconds)",
        ),
        Recording(record="workload:started_timestamp_seconds:max", expr=_started()),
    )


def _rate(name: str, labels: str) -> str:
    return f"sum by ({labels}) (rate(athanor_training_{name}[5m]))"


def _started() -> str:
    """Return when the latest pod of each job started, among those that report training metrics."""
    pods = of_workload("max by (namespace, pod) (kube_pod_start_time)", "workload")
    return f"max by ({_JOB}) ({pods} and on (namespace, pod) athanor_training_step)"


def _progress(limits: TrainingThresholds) -> Sequence[Alert]:
    return (
        Alert(
            name="TrainingStalled",
            # Set to the start of the process until a step is complete.
            expr=f"""
                time() - max by ({_JOB}) (athanor_training_last_step_timestamp_seconds) > {limits.stalled_seconds}""",
            for_seconds=limits.stalled_for_seconds,
            severity="page",
            summary=f"{_NAMED} is running but has completed no step for {{{{ $value | humanizeDuration }}}}",
            description=f"Its GPUs make no progress, and nothing restarts a job whose processes are alive. {_WHY}",
        ),
        Alert(
            name="TrainingLossNotFinite",
            expr=_not_finite(f"{limits.not_finite_window_seconds}s"),
            for_seconds=0,
            severity="page",
            summary=f"The loss of {_NAMED} is not a finite number",
            description=f"Whatever it computes from now on is worthless. Stop it and resume from a good checkpoint. "
            f"{_WHY}",
        ),
        Alert(
            name="TrainingStraggler",
            expr=f"{STRAGGLING} > {waited_for(limits.straggler_factor):.6g}",
            for_seconds=limits.straggler_for_seconds,
            severity="ticket",
            summary=f"Rank {{{{ $labels.rank }}}} slows down {_NAMED}",
            description="Every step waits for the slowest rank. Check its GPU's clock, its node and its input data.",
        ),
        Alert(
            name="TrainingRankSilent",
            expr='up{job="training"} == 0 and max_over_time(up{job="training"}[1h]) == 1',
            for_seconds=limits.stalled_for_seconds,
            severity="ticket",
            summary="{{ $labels.namespace }}/{{ $labels.pod }} no longer serves the metrics of its rank",
            description=f"The pod is running, but its process hangs or is gone. {_WHY}",
        ),
    )


def _not_finite(window: str) -> str:
    """Return the jobs whose loss is not finite, or was not finite within a window.

    Most programs exit then, before they are scraped; the next process of the run counts what earlier ones met. So its
    counter starts above 0, and `increase` would see nothing.
    """
    met = "athanor_training_nonfinite_loss_total"
    now = f"max by ({_JOB}, run) (max_over_time({met}[{window}]))"
    before = f"max by ({_JOB}, run) (max_over_time({met}[1d] offset {window}))"
    # Of the values that are not finite, only NaN differs from itself.
    bad = "athanor_training_loss != athanor_training_loss or abs(athanor_training_loss) == Inf"
    return f"group by ({_JOB}) (({now} > 0 unless {before} >= {now}) or {bad})"


def _straggling() -> str:
    """Return which share of a step is spent waiting for each rank: by how much its own time exceeds the middle one's.

    Ranks that exchange gradients in each step all take as long as the slowest. What tells it from the others is the
    time it needs until its own gradients are there. Of two ranks the faster one is the measure: the middle of two lies
    half-way to the slow one.
    """
    middle = f"(quantile by ({_JOB}) (0.5, {_OWN}) and on ({_JOB}) count by ({_JOB}) ({_OWN}) > 2)"
    usual = f"({middle} or on ({_JOB}) min by ({_JOB}) ({_OWN}))"
    return f"({_OWN} - on ({_JOB}) group_left () {usual}) / {_STEPS}"


def waited_for(factor: float) -> float:
    """Return the share of a step that is spent waiting for a rank that makes it last `factor` times as long."""
    return 1 - 1 / factor


def _checkpoints(limits: TrainingThresholds) -> Sequence[Alert]:
    return (
        Alert(
            name="TrainingCheckpointTooOld",
            expr=f"""
                (workload:checkpoint_age_seconds:min or time() - workload:started_timestamp_seconds:max)
                > {limits.checkpoint_age_seconds}""",
            for_seconds=limits.checkpoint_for_seconds,
            severity="ticket",
            summary=f"{_NAMED} has saved no checkpoint for {{{{ $value | humanizeDuration }}}}",
            description=f"A failure now would lose all work since then. {_WHY}",
        ),
        Alert(
            name="TrainingCheckpointFailed",
            expr=f"""
                max by ({_JOB}) (increase(
                  athanor_training_checkpoint_failures_total[{limits.failure_window_seconds}s])) > 0""",
            for_seconds=0,
            severity="ticket",
            summary=f"{_NAMED} could not save a checkpoint",
            description=f"It continues and tries again. Check whether the volume is full or unavailable. {_WHY}",
        ),
    )


def _failures(limits: TrainingThresholds) -> Sequence[Alert]:
    window = f"{limits.failure_window_seconds}s"
    lives = f"count by (namespace, pod) (group by (namespace, pod, uid) (last_over_time(kube_pod_info[{window}])))"
    return (
        Alert(
            name=_FAILED,
            expr=f"{_ended(_FAILURES, window)} or {_given_up(window)}",
            for_seconds=0,
            severity="ticket",
            summary=f"{_NAMED} failed",
            description=f"Its program failed as often as it may. {_WHY}",
        ),
        Alert(
            name="JobRestartsOften",
            expr=f"max by ({_JOB}, queue) ({of_workload(lives)}) - 1 >= {limits.restarts}",
            for_seconds=0,
            severity="ticket",
            summary=f"{_NAMED} was restarted {{{{ $value }}}} times recently",
            description=f"It seems to run but keeps starting over. {_WHY}",
        ),
    )


def _given_up(window: str) -> str:
    """Return the jobs whose pods have ended within a window, at least one of them badly, and are not started again.

    The policies of a job end it as Terminated if one of several pods fails (workloads/restarts.py), and Volcano counts
    only the phase Failed. For a minute, because a pod that failed may be about to be started again.
    """

    def jobs(pods: str) -> str:
        return f"max by ({_JOB}, queue) ({of_workload(f'max by (namespace, pod) ({pods})')})"

    failed = 'kube_pod_status_phase{phase="Failed"}'
    now = jobs(f"{failed} == 1 and {failed} offset 1m == 1")
    return f"({now} unless {jobs(in_phase('Pending|Running'))} unless {jobs(f'{failed} offset {window} == 1')})"


def _completions(limits: TrainingThresholds) -> Sequence[Alert]:
    return (
        Alert(
            name=_COMPLETED,
            expr=_ended("volcano_job_completed_phase_count", f"{limits.failure_window_seconds}s"),
            for_seconds=0,
            severity="info",
            summary=f"{_NAMED} completed",
            description="All its pods ended well. `athanor logs {{ $labels.workload }}` has what they printed.",
        ),
    )


def _ended(ends: str, window: str) -> str:
    """Return the jobs that ended within a window, by the name that the program gave them.

    The first end makes the counter, at 1: its increase misses that one.

    Args:
        ends: Counter of the ends of each job.
        window: How long ago.
    """
    each = "max by (job_name, queue_name)"
    new = f"({each} ({ends}) unless {each} ({ends} offset {window}))"
    more = f"({each} (increase({ends}[{window}])) > 0)"
    named = f'label_replace({new} or {more}, "namespace", "$1", "job_name", "(.*)/.*")'
    named = f'label_replace({named}, "workload", "$1", "job_name", ".*/(.*?)(-[0-9a-f]{{8}})?")'
    return f'max by ({_JOB}, queue) (label_replace({named}, "queue", "$1", "queue_name", "(.*)"))'
