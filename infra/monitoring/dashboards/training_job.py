"""One job: does it learn, how fast, what holds it up, and what would a failure cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards import training_speed, workload
from infra.monitoring.dashboards.board import LOGS, RUNBOOKS, Board, Choice, Section, logs_link
from infra.monitoring.dashboards.panels import RATIO, Limits, Look, Text, number, over_time
from infra.monitoring.dashboards.promql import WORKLOAD, increase, mean
from infra.monitoring.logs import JOB_FIELD

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import AlertThresholds, TrainingThresholds

UID = "athanor-job"
_JOBS = 'namespace_pod:workload:info{kind!="service"}'
_ANY = Look(unit=units.NoUnit, least=None)


def board(thresholds: AlertThresholds) -> Board:
    """Return the dashboard."""
    training = thresholds.training
    return Board(
        uid=UID,
        title="One job",
        about="Whether a job learns, how fast it is, what holds it up, and what a failure would cost.",
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
        title="Now, or when it ended",
        panels=(
            number(
                "Progress",
                f"max(athanor_training_step{{{WORKLOAD}}}) / max(athanor_training_total_steps{{{WORKLOAD}}})",
                Text(asks="How far is it?", when_bad="It stands still: the panel beside it says for how long."),
                Look(unit=units.PercentUnit, most=1, last_known=True),
            ),
            number(
                "Since the last step",
                f"time() - max(athanor_training_last_step_timestamp_seconds{{{WORKLOAD}}})",
                Text(
                    asks="Does it still move?",
                    when_bad="The logs of the rank that is behind: a hung collective, a full volume, a dead loader.",
                ),
                Look(unit=units.Seconds, limits=Limits(doubtful=stalled / 2, bad=stalled), last_known=True),
            ),
            number(
                "Loss",
                f"avg(athanor_training_loss{{{WORKLOAD}}})",
                Text(
                    asks="What is the loss now?", when_bad="No number: lower the learning rate, clip, check the data."
                ),
                Look(unit=units.NoUnit, least=None, decimals=4, last_known=True),
            ),
            number(
                "Samples per second",
                f"max(workload:samples_per_second:sum{{{WORKLOAD}}})",
                Text(
                    asks="How fast is it, all ranks together?",
                    when_bad="Compare with earlier runs; the panels of time per step tell where it goes.",
                ),
                Look(last_known=True),
            ),
            number(
                "GPUs",
                f"sum(namespace_pod:gpus_allocated:sum{{{WORKLOAD}}})",
                Text(asks="How many GPUs does it hold?", when_bad="Fewer than it asks for: some of its pods wait."),
                Look(last_known=True),
            ),
            number(
                "Checkpoint age",
                f"max(workload:checkpoint_age_seconds:min{{{WORKLOAD}}})",
                Text(
                    asks="How much work would a failure cost now?",
                    when_bad="Older than the interval between checkpoints: see the failures below.",
                ),
                Look(unit=units.Seconds, limits=Limits(doubtful=checkpoint / 2, bad=checkpoint), last_known=True),
            ),
        ),
    )


def _learning() -> Section:
    return Section(
        title="Learning",
        panels=(
            over_time(
                "Loss over time",
                {"loss, mean of all ranks": f"avg(athanor_training_loss{{{WORKLOAD}}})"},
                Text(
                    asks="Does it learn?",
                    when_bad="Flat: learning rate or data. Rising: the learning rate is too high. A gap: no finite "
                    "number, or no scrape.",
                ),
                _ANY,
            ),
            over_time(
                "Gradient norm",
                {"before clipping": f"max(athanor_training_gradient_norm{{{WORKLOAD}}})"},
                Text(
                    asks="Are the gradients of a sound size?",
                    when_bad="Spikes before the loss jumps: clip, or lower the learning rate.",
                ),
            ),
            over_time(
                "Learning rate",
                {"learning rate": f"max(athanor_training_learning_rate{{{WORKLOAD}}})"},
                Text(asks="Is the schedule the one that was meant?", when_bad="Compare with the job's arguments."),
                Look(unit=units.NoUnit),
            ),
            over_time(
                "Test accuracy",
                {"share of held-out samples": f"max(athanor_training_test_accuracy{{{WORKLOAD}}})"},
                Text(
                    asks="Does it learn what holds beyond its training data?",
                    when_bad="Falling while the loss falls: it learns by heart; stop earlier, or regularise.",
                ),
                RATIO,
            ),
            over_time(
                "Losses that are no number",
                {"steps": f"sum({increase('athanor_training_nonfinite_loss_total')})"},
                Text(
                    asks="Were there steps whose loss was NaN or infinite?",
                    when_bad="Runbook of the NaN alert: start again from the last checkpoint before it.",
                ),
            ),
            over_time(
                "Epoch",
                {"epochs done": f"max(athanor_training_epoch{{{WORKLOAD}}})"},
                Text(
                    asks="How often did it see its data?", when_bad="Steps without epochs: the data set is not found."
                ),
            ),
        ),
    )


def _safety(thresholds: TrainingThresholds) -> Section:
    return Section(
        title="Checkpoints",
        panels=(
            over_time(
                "Age of the newest checkpoint",
                {"age": f"max(workload:checkpoint_age_seconds:min{{{WORKLOAD}}})"},
                Text(
                    asks="Are checkpoints written as often as they should be?",
                    when_bad="A line that only rises: saving fails or has stopped; see the log of rank 0.",
                ),
                Look(
                    unit=units.Seconds,
                    limits=Limits(
                        doubtful=thresholds.checkpoint_age_seconds / 2, bad=thresholds.checkpoint_age_seconds
                    ),
                ),
            ),
            over_time(
                "Standstill of one checkpoint",
                {"mean, slowest rank": f"max({mean('athanor_training_checkpoint_seconds', by='rank')})"},
                Text(
                    asks="How long does training stop for a checkpoint?",
                    when_bad="Seconds: the volume is slow; save less often, or to a faster one.",
                ),
                Look(unit=units.Seconds),
            ),
            over_time(
                "Checkpoints that failed",
                {"failures": f"sum({increase('athanor_training_checkpoint_failures_total')})"},
                Text(
                    asks="Could every checkpoint be saved?",
                    when_bad="A full volume is the usual reason: the cluster's dashboard, panel Volumes.",
                ),
            ),
        ),
    )
