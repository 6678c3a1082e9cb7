"""The dashboard of a training job: learning progress, speed, bottlenecks, and the work at risk in a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards import training_speed, workload
from infra.monitoring.dashboards.board import LOGS, RUNBOOKS, Board, Choice, Section, logs_link
from infra.monitoring.dashboards.panels import BEGIN, END, RATIO, Limits, Look, Text, number, over_time, periods
from infra.monitoring.dashboards.promql import WORKLOAD, increase, mean
from infra.monitoring.logs import JOB_FIELD

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel
    from infra.settings.alert_thresholds import AlertThresholds, TrainingThresholds

UID = "athanor-job"
_JOBS = 'namespace_pod:workload:info{kind!="service"}'
_RUNS_LISTED = "7d"
_MARGIN_SECONDS = 60
_ANY = Look(unit=units.NoUnit, least=None)
_QUARTER = 6
"""Columns of each of the four numbers of the second line."""


def board(thresholds: AlertThresholds) -> Board:
    """Return the dashboard."""
    training = thresholds.training
    return Board(
        uid=UID,
        title="One job",
        about="Whether a job learns, how fast it is, what slows it down, and what a failure would cost.",
        choices=(
            Choice(name="namespace", label="Namespace", series=_JOBS, of="namespace"),
            Choice(
                name="workload",
                label="Job",
                series='namespace_pod:workload:info{kind!="service", namespace="$namespace"}',
                of="workload",
            ),
        ),
        entries=(LOGS, RUNBOOKS),
        links=(logs_link("Logs of this job", JOB_FIELD, "workload"),),
        sections=(
            _now(training),
            _runs(),
            _learning(),
            training_speed.section(training),
            _safety(training),
            workload.gpus(),
            workload.pods(),
        ),
    )


def _now(thresholds: TrainingThresholds) -> Section:
    stalled, checkpoint = thresholds.stalled_seconds, thresholds.checkpoint_age_seconds
    return Section(
        title="Now, or at the end",
        panels=(
            _progress(),
            _since_the_last_step(stalled),
            _loss(),
            _samples_per_second(),
            _gpus(),
            _checkpoint_age(checkpoint),
            _time_left(),
            _mfu(),
            _memory_peak(),
            _slowest_rank(),
        ),
    )


def _progress() -> Panel:
    return number(
        "Progress",
        f"max(athanor_training_step{{{WORKLOAD}}}) / max(athanor_training_total_steps{{{WORKLOAD}}})",
        Text(asks="How far is it?", when_bad="No progress: the next panel shows for how long."),
        Look(unit=units.PercentUnit, most=1, decimals=1, last_known=True),
    )


def _since_the_last_step(stalled: float) -> Panel:
    return number(
        "Since the last step",
        f"time() - max(athanor_training_last_step_timestamp_seconds{{{WORKLOAD}}})",
        Text(
            asks="How long ago was the last step?",
            when_bad="Read the logs of the rank that is behind: a hung collective, a full volume or a dead data "
            "loader.",
        ),
        Look(unit=units.Seconds, limits=Limits(doubtful=stalled / 2, bad=stalled), last_known=True),
    )


def _loss() -> Panel:
    return number(
        "Loss",
        f"avg(athanor_training_loss{{{WORKLOAD}}})",
        Text(
            asks="What is the loss now?",
            when_bad="Not a number: lower the learning rate, clip gradients, check the data.",
        ),
        Look(unit=units.NoUnit, least=None, decimals=4, last_known=True),
    )


def _samples_per_second() -> Panel:
    return number(
        "Samples per second",
        f"max(workload:samples_per_second:sum{{{WORKLOAD}}})",
        Text(
            asks="How fast is it, all ranks together?",
            when_bad="Compare with earlier runs. The panels about the time per step show where the time goes.",
        ),
        Look(last_known=True),
    )


def _gpus() -> Panel:
    return number(
        "GPUs",
        f"sum(namespace_pod:gpus_allocated:sum{{{WORKLOAD}}})",
        Text(asks="How many GPUs does it hold?", when_bad="Fewer than it requests: some of its pods are waiting."),
        Look(last_known=True),
    )


def _checkpoint_age(checkpoint: float) -> Panel:
    return number(
        "Checkpoint age",
        f"max(workload:checkpoint_age_seconds:min{{{WORKLOAD}}})",
        Text(
            asks="How much work would a failure cost now?",
            when_bad="Older than the checkpoint interval: see the failed checkpoints below.",
        ),
        Look(unit=units.Seconds, limits=Limits(doubtful=checkpoint / 2, bad=checkpoint), last_known=True),
    )


def _time_left() -> Panel:
    return number(
        "Time left",
        f"max(athanor_training_seconds_left{{{WORKLOAD}}})",
        Text(
            asks="When will it be done, at the pace of the latest steps, checkpoints and evaluations included?",
            when_bad="It grows: steps have become slower. The panels about the time per step show where the time goes.",
        ),
        Look(unit=units.Seconds, last_known=True, width=_QUARTER),
    )


def _mfu() -> Panel:
    return number(
        "MFU",
        f"max(athanor_training_mfu{{{WORKLOAD}}})",
        Text(
            asks="Which share of its GPUs' peak does the model use? Only where the peak of the GPU is known.",
            when_bad="Far lower than before: a straggler, or the data. Low from the start: a larger batch, bf16 or "
            "--compile inductor.",
        ),
        Look(unit=units.PercentUnit, most=1, decimals=1, last_known=True, width=_QUARTER),
    )


def _memory_peak() -> Panel:
    return number(
        "Memory peak",
        f"max(athanor_training_memory_peak_bytes{{{WORKLOAD}}})",
        Text(
            asks="How much memory has a rank used at most: of its GPU, or of the pod where there is none?",
            when_bad="Close to what the GPU or the pod has: use a smaller batch, more shards or activation "
            "checkpointing.",
        ),
        Look(unit=units.BytesIEC, last_known=True, width=_QUARTER),
    )


def _slowest_rank() -> Panel:
    return number(
        "Slowest rank",
        f"max(athanor_training_slowest_rank{{{WORKLOAD}}})",
        Text(
            asks="Which rank took the longest at the last comparison? The row Speed shows by how much.",
            when_bad="The same rank each time, and slower than the others: check its node. An event slow_rank names "
            "its pod.",
        ),
        Look(unit=units.NoUnit, last_known=True, width=_QUARTER),
    )


def _runs() -> Section:
    """Return the row that leads to earlier runs: by itself, Grafana cannot open on the time of a run."""
    of_rank_0 = f'athanor_training_last_step_timestamp_seconds{{namespace="$namespace", rank="0"}}[{_RUNS_LISTED}]'
    # The gauge starts at the time at which the process started.
    began = f"(min by (workload, run) (min_over_time({of_rank_0})) - {_MARGIN_SECONDS}) * 1000"
    ended = f"(max by (workload, run) (max_over_time({of_rank_0})) + {_MARGIN_SECONDS}) * 1000"
    panel = periods(
        "Runs of the last week",
        (began, ended),
        {"workload": "job", "run": "run", BEGIN: "from", END: "to"},
        Text(
            asks="When did jobs of this namespace train? Click on a run to open this dashboard on its own time.",
            when_bad="A missing run never reported a step: make why JOB=… names the reason.",
        ),
        f"/d/{UID}?var-datasource=${{datasource}}&var-namespace=${{namespace}}"
        '&var-workload=${__data.fields["workload"]}'
        f'&from=${{__data.fields["{BEGIN}"].numeric}}&to=${{__data.fields["{END}"].numeric}}',
    )
    return Section(title="Runs", panels=(panel,))


def _learning() -> Section:
    return Section(
        title="Learning",
        panels=(
            _loss_over_time(),
            _gradient_norm(),
            _learning_rate(),
            _test_accuracy(),
            _losses_that_are_not_finite(),
            _epoch(),
        ),
    )


def _loss_over_time() -> Panel:
    return over_time(
        "Loss over time",
        {"loss, mean of all ranks": f"avg(athanor_training_loss{{{WORKLOAD}}})"},
        Text(
            asks="Does it learn?",
            when_bad="Flat: check the learning rate and the data. Rising: the learning rate is too high. A gap: the"
            " loss is not finite, or was not scraped.",
        ),
        _ANY,
    )


def _gradient_norm() -> Panel:
    return over_time(
        "Gradient norm",
        {"before clipping": f"max(athanor_training_gradient_norm{{{WORKLOAD}}})"},
        Text(
            asks="Are the gradients in a normal range?",
            when_bad="Spikes before the loss jumps: clip gradients, or lower the learning rate.",
        ),
    )


def _learning_rate() -> Panel:
    return over_time(
        "Learning rate",
        {"learning rate": f"max(athanor_training_learning_rate{{{WORKLOAD}}})"},
        Text(asks="Does the learning rate follow the intended schedule?", when_bad="Check the job's arguments."),
        Look(unit=units.NoUnit),
    )


def _test_accuracy() -> Panel:
    return over_time(
        "Test accuracy",
        {"held-out samples": f"max(athanor_training_test_accuracy{{{WORKLOAD}}})"},
        Text(
            asks="Does the model generalise beyond its training data?",
            when_bad="Falling while the loss falls: the model overfits. Stop earlier, or regularise.",
        ),
        RATIO,
    )


def _losses_that_are_not_finite() -> Panel:
    return over_time(
        "Losses that are not finite",
        {"steps": f"sum({increase('athanor_training_nonfinite_loss_total')})"},
        Text(
            asks="Were there steps whose loss was NaN or infinite?",
            when_bad="See the runbook TrainingLossNotFinite: resume from the last checkpoint before the step.",
        ),
    )


def _epoch() -> Panel:
    return over_time(
        "Epoch",
        {"completed epochs": f"max(athanor_training_epoch{{{WORKLOAD}}})"},
        Text(
            asks="How many passes over the data are complete?",
            when_bad="Steps but no epochs: the data set has not been found.",
        ),
    )


def _safety(thresholds: TrainingThresholds) -> Section:
    return Section(
        title="Checkpoints",
        panels=(
            _age_of_the_latest_checkpoint(thresholds),
            _pause_per_checkpoint(),
            _failed_checkpoints(),
        ),
    )


def _age_of_the_latest_checkpoint(thresholds: TrainingThresholds) -> Panel:
    return over_time(
        "Age of the latest checkpoint",
        {"age": f"max(workload:checkpoint_age_seconds:min{{{WORKLOAD}}})"},
        Text(
            asks="Are checkpoints saved as often as they should be?",
            when_bad="A line that only rises: saving fails or has stopped; read the log of rank 0.",
        ),
        Look(
            unit=units.Seconds,
            limits=Limits(doubtful=thresholds.checkpoint_age_seconds / 2, bad=thresholds.checkpoint_age_seconds),
        ),
    )


def _pause_per_checkpoint() -> Panel:
    return over_time(
        "Pause per checkpoint",
        {"mean, slowest rank": f"max({mean('athanor_training_checkpoint_seconds', by='rank')})"},
        Text(
            asks="How long does training pause for a checkpoint?",
            when_bad="Seconds: the volume is slow. Save less often, or to a faster volume.",
        ),
        Look(unit=units.Seconds),
    )


def _failed_checkpoints() -> Panel:
    return over_time(
        "Failed checkpoints",
        {"failures": f"sum({increase('athanor_training_checkpoint_failures_total')})"},
        Text(
            asks="Were all checkpoints saved?",
            when_bad="The usual reason is a full volume: see the panel Volumes on the dashboard of the cluster.",
        ),
    )
