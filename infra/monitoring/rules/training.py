"""Training jobs: how fast they are, and whether they get anywhere.

Metrics: trainer/metrics.py; of restarts and failures kube-state-metrics and Volcano's controller
(pkg/controllers/job/state/metrics.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring.rules.pods import of_workload
from infra.monitoring.rules.rule import Alert, Area, Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.alert_thresholds import TrainingThresholds

_JOB = "namespace, workload"
_RANK = "namespace, workload, rank"
_NAMED = "{{ $labels.namespace }}/{{ $labels.workload }}"
_WHY = "`make why JOB={{ $labels.workload }}` and `make logs JOB={{ $labels.workload }}` tell more."


def area(limits: TrainingThresholds) -> Area:
    """Return the rules of training jobs."""
    return Area(
        name="training",
        recordings=_recordings(),
        alerts=(*_progress(limits), *_checkpoints(limits), *_failures(limits)),
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
        Recording(record="workload_rank:step_seconds:mean", expr=mean),
        # Of the time before the ranks meet, a program that does not measure it may at least tell the wait for data.
        Recording(record="workload_rank:own_seconds:mean", expr=f"{own} or {waits}"),
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
    """Return when the newest pod of each job started that reports how it trains."""
    pods = of_workload("max by (namespace, pod) (kube_pod_start_time)", "workload")
    return f"max by ({_JOB}) ({pods} and on (namespace, pod) athanor_training_step)"


def _progress(limits: TrainingThresholds) -> Sequence[Alert]:
    return (
        Alert(
            name="TrainingStalled",
            # Set to the start of the process until it has made a step.
            expr=f"""
                time() - max by ({_JOB}) (athanor_training_last_step_timestamp_seconds) > {limits.stalled_seconds}""",
            for_seconds=limits.stalled_for_seconds,
            severity="page",
            summary=f"{_NAMED} runs and has made no step for {{{{ $value | humanizeDuration }}}}",
            description=f"Its GPUs are held for nothing, and nothing restarts a job whose processes live. {_WHY}",
        ),
        Alert(
            name="TrainingLossNotFinite",
            expr=_not_finite(f"{limits.not_finite_window_seconds}s"),
            for_seconds=0,
            severity="page",
            summary=f"The loss of {_NAMED} is no finite number",
            description=f"What it computes from here on is worthless. Stop it, go back to a good checkpoint. {_WHY}",
        ),
        Alert(
            name="TrainingStraggler",
            expr=_straggler(limits.straggler_factor),
            for_seconds=limits.straggler_for_seconds,
            severity="ticket",
            summary=f"Rank {{{{ $labels.rank }}}} holds up {_NAMED}",
            description="Every step waits for the slowest rank. Look at its GPU's clock, its node and its input.",
        ),
        Alert(
            name="TrainingRankSilent",
            expr='up{job="training"} == 0 and max_over_time(up{job="training"}[1h]) == 1',
            for_seconds=limits.stalled_for_seconds,
            severity="ticket",
            summary="{{ $labels.namespace }}/{{ $labels.pod }} no longer answers for its rank",
            description=f"Its pod runs, its process hangs or is gone. {_WHY}",
        ),
    )


def _not_finite(window: str) -> str:
    """Return the jobs whose loss is no finite number, or was within a window.

    Most programs end then, too soon to be read; the next process of the run counts what the ones before met. So its
    counter starts above 0, and `increase` would see nothing.
    """
    met = "athanor_training_nonfinite_loss_total"
    now = f"max by ({_JOB}, run) (max_over_time({met}[{window}]))"
    before = f"max by ({_JOB}, run) (max_over_time({met}[1d] offset {window}))"
    # Of the values that are no finite number only NaN differs from itself.
    bad = "athanor_training_loss != athanor_training_loss or abs(athanor_training_loss) == Inf"
    return f"group by ({_JOB}) (({now} > 0 unless {before} >= {now}) or {bad})"


def _straggler(factor: float) -> str:
    """Return the ranks without which a step would be over sooner, by a share of 1 - 1/factor of it.

    Ranks that exchange gradients in each step all take as long as the slowest. What tells it from the others is the
    time it takes before it meets them.
    """
    own, steps = "workload_rank:own_seconds:mean", "workload_rank:step_seconds:mean"
    excess = f"({own} - on ({_JOB}) group_left () quantile by ({_JOB}) (0.5, {own}))"
    return f"{excess} / {steps} > {1 - 1 / factor:.6g}"


def _checkpoints(limits: TrainingThresholds) -> Sequence[Alert]:
    return (
        Alert(
            name="TrainingCheckpointTooOld",
            expr=f"""
                (workload:checkpoint_age_seconds:min or time() - workload:started_timestamp_seconds:max)
                > {limits.checkpoint_age_seconds}""",
            for_seconds=limits.checkpoint_for_seconds,
            severity="ticket",
            summary=f"{_NAMED} saved its last checkpoint {{{{ $value | humanizeDuration }}}} ago, or none at all",
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
            description=f"It goes on and tries again. Is the volume full or gone? {_WHY}",
        ),
    )


def _failures(limits: TrainingThresholds) -> Sequence[Alert]:
    window = f"{limits.failure_window_seconds}s"
    lives = f"count by (namespace, pod) (group by (namespace, pod, uid) (last_over_time(kube_pod_info[{window}])))"
    return (
        Alert(
            name="JobFailed",
            expr=_failed(window),
            for_seconds=0,
            severity="ticket",
            summary=f"{_NAMED} failed",
            description=f"It has used up its restarts, or must not restart. {_WHY}",
        ),
        Alert(
            name="JobRestartsOften",
            expr=f"max by ({_JOB}, queue) ({of_workload(lives)}) - 1 >= {limits.restarts}",
            for_seconds=0,
            severity="ticket",
            summary=f"{_NAMED} was restarted {{{{ $value }}}} times of late",
            description=f"It seems to run and starts over again and again. {_WHY}",
        ),
    )


def _failed(window: str) -> str:
    """Return the jobs that failed within a window, by the name that the program gave them.

    The first failure makes the counter, at 1: its increase misses that one.
    """
    failures, each = "volcano_job_failed_phase_count", "max by (job_name, queue_name)"
    new = f"({each} ({failures}) unless {each} ({failures} offset {window}))"
    more = f"({each} (increase({failures}[{window}])) > 0)"
    named = f'label_replace({new} or {more}, "namespace", "$1", "job_name", "(.*)/.*")'
    named = f'label_replace({named}, "workload", "$1", "job_name", ".*/(.*?)(-[0-9a-f]{{8}})?")'
    return f'max by ({_JOB}, queue) (label_replace({named}, "queue", "$1", "queue_name", "(.*)"))'
