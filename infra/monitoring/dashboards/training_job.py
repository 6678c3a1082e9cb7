"""One job: does it learn, how fast, what holds it up, and what would a failure cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import LOGS, RUNBOOKS, Board, Choice, Section, logs_link
from infra.monitoring.dashboards.panels import RATIO, Limits, Look, Text, number, over_time, rows
from infra.monitoring.dashboards.promql import PODS_OF_NAMESPACE, WORKLOAD, increase, mean, most, of_pods, rate
from infra.monitoring.logs import JOB_FIELD

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import AlertThresholds, TrainingThresholds

UID = "athanor-job"
_JOBS = 'namespace_pod:workload:info{kind!="service"}'
_ANY = Look(least=None)


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
        sections=(_now(training), _learning(), _speed(training), _gpus(), _pods(), _safety(training)),
    )


def _now(thresholds: TrainingThresholds) -> Section:
    stalled, checkpoint = thresholds.stalled_seconds, thresholds.checkpoint_age_seconds
    return Section(
        title="Now",
        panels=(
            number(
                "Step",
                f"max(athanor_training_step{{{WORKLOAD}}})",
                Text(asks="How far is it?", when_bad="It stands still: the panel beside it says for how long."),
                Look(unit=units.NoUnit, decimals=0),
            ),
            number(
                "Since the last step",
                f"time() - max(athanor_training_last_step_timestamp_seconds{{{WORKLOAD}}})",
                Text(
                    asks="Does it still move?",
                    when_bad="The logs of the rank that is behind: a hung collective, a full volume, a dead loader.",
                ),
                Look(unit=units.Seconds, limits=Limits(doubtful=stalled / 2, bad=stalled)),
            ),
            number(
                "Loss",
                f"avg(athanor_training_loss{{{WORKLOAD}}})",
                Text(
                    asks="What is the loss now?", when_bad="No number: lower the learning rate, clip, check the data."
                ),
                Look(least=None, decimals=4),
            ),
            number(
                "Samples per second",
                f"max(workload:samples_per_second:sum{{{WORKLOAD}}})",
                Text(
                    asks="How fast is it, all ranks together?",
                    when_bad="Compare with earlier runs; the panels of time per step tell where it goes.",
                ),
            ),
            number(
                "GPUs",
                f"sum(namespace_pod:gpus_allocated:sum{{{WORKLOAD}}})",
                Text(asks="How many GPUs does it hold?", when_bad="Fewer than it asks for: some of its pods wait."),
            ),
            number(
                "Checkpoint age",
                f"max(workload:checkpoint_age_seconds:min{{{WORKLOAD}}})",
                Text(
                    asks="How much work would a failure cost now?",
                    when_bad="Older than the interval between checkpoints: see the failures below.",
                ),
                Look(unit=units.Seconds, limits=Limits(doubtful=checkpoint / 2, bad=checkpoint)),
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


def _speed(thresholds: TrainingThresholds) -> Section:
    factor = thresholds.straggler_factor
    ranks = f"workload_rank:step_seconds:mean{{{WORKLOAD}}}"
    return Section(
        title="Speed",
        panels=(
            over_time(
                "Throughput",
                {"samples per second": f"max(workload:samples_per_second:sum{{{WORKLOAD}}})"},
                Text(
                    asks="Is it as fast as it was?",
                    when_bad="A step down that stays: a straggler, a slower node, a neighbour on the volume.",
                ),
            ),
            over_time(
                "Time per step",
                {
                    "half are faster": f"max(workload:step_seconds:p50{{{WORKLOAD}}})",
                    "99 of 100 are faster": f"max(workload:step_seconds:p99{{{WORKLOAD}}})",
                },
                Text(
                    asks="Is a step always equally long?",
                    when_bad="A far higher second line: checkpoints, evaluation or data loading stop it now and then.",
                ),
                Look(unit=units.Seconds),
            ),
            over_time(
                "Share of a step that waits for data",
                {"of the time": f"max(workload:data_wait:ratio{{{WORKLOAD}}})"},
                Text(
                    asks="Does the GPU wait for its data?",
                    when_bad="Above a tenth: more loader processes, a faster volume, or data nearer to the node.",
                ),
                Look(unit=units.PercentUnit, most=1, limits=Limits(doubtful=0.1, bad=0.3)),
            ),
            over_time(
                "Data wait of the slowest ranks",
                {"rank {{rank}}": most(10, mean("athanor_training_data_wait_seconds", by="rank", matchers=WORKLOAD))},
                Text(
                    asks="Do some ranks wait longer for data than others?",
                    when_bad="One alone: its node's disk or network, or its part of the data.",
                ),
                Look(unit=units.Seconds),
            ),
            over_time(
                "Time per step of the slowest ranks",
                {"rank {{rank}}": most(10, f"max by (rank) ({ranks})")},
                Text(
                    asks="Is one rank slower than the rest?",
                    when_bad="In a job whose ranks wait for each other all look alike: look at data wait, GPU clock "
                    "and network by rank then.",
                ),
                Look(unit=units.Seconds),
            ),
            over_time(
                "Straggler",
                {"slowest rank to the middle one": f"max({ranks}) / quantile(0.5, {ranks})"},
                Text(
                    asks="How far is the slowest rank behind?",
                    when_bad="Runbook of the straggler alert: find its node, and what is wrong with that.",
                ),
                Look(limits=Limits(doubtful=(1 + factor) / 2, bad=factor)),
            ),
        ),
    )


def _gpus() -> Section:
    def of_gpus(metric: str) -> str:
        return of_pods(f"avg by (namespace, pod) ({metric}{{{PODS_OF_NAMESPACE}}})")

    return Section(
        title="GPUs",
        panels=(
            over_time(
                "GPU busy",
                {"{{pod}}": f"avg by (pod) (gpu:busy:ratio{{{WORKLOAD}}})"},
                Text(
                    asks="Do its GPUs compute?",
                    when_bad="Low: look at data wait first, then at the batch size.",
                ),
                RATIO,
            ),
            over_time(
                "Tensor cores busy",
                {"{{pod}}": of_gpus("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")},
                Text(
                    asks="Does it use the fast part of the GPU?",
                    when_bad="Near 0 with a busy GPU: no bf16, or shapes that are no multiples of 8.",
                ),
                RATIO,
            ),
            over_time(
                "GPU memory",
                {"{{pod}}": f"max by (pod) (gpu:memory_used:ratio{{{WORKLOAD}}})"},
                Text(
                    asks="Is there room for a larger batch, or is it about to run out?",
                    when_bad="Above 0.95: a longer sequence or a fragment fails with out of memory.",
                ),
                Look(unit=units.PercentUnit, most=1, limits=Limits(doubtful=0.9, bad=0.95)),
            ),
            over_time(
                "Power of its GPUs",
                {"{{pod}}": of_pods(f"sum by (namespace, pod) (DCGM_FI_DEV_POWER_USAGE{{{PODS_OF_NAMESPACE}}})")},
                Text(
                    asks="Do all its pods work equally hard?",
                    when_bad="One far lower: it waits for the others or is held down. All low: the GPUs wait.",
                ),
                Look(unit=units.Watt),
            ),
            over_time(
                "NVLink",
                {
                    "{{pod}}": of_pods(
                        "sum by (namespace, pod)"
                        f" (rate(DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{PODS_OF_NAMESPACE}}}[$__rate_interval]))"
                    )
                },
                Text(
                    asks="Do its GPUs talk over NVLink?",
                    when_bad="Nothing in a job of several GPUs a node: NCCL took another way; see its log at INFO.",
                ),
            ),
            over_time(
                "PCIe",
                {
                    "{{pod}} to the host": of_gpus("DCGM_FI_PROF_PCIE_TX_BYTES"),
                    "{{pod}} from the host": of_gpus("DCGM_FI_PROF_PCIE_RX_BYTES"),
                },
                Text(
                    asks="How much moves between host and GPU, mean of a pod's GPUs?",
                    when_bad="Near the slot's limit: pin memory, decode on the GPU, or send less.",
                ),
                Look(unit=units.BytesPerSecondSI),
            ),
        ),
    )


def _pods() -> Section:
    def of_containers(metric: str, *, counter: bool) -> str:
        series = rate(metric, PODS_OF_NAMESPACE) if counter else f"{metric}{{{PODS_OF_NAMESPACE}}}"
        return most(10, of_pods(f"sum by (namespace, pod) ({series})"))

    return Section(
        title="Pods",
        panels=(
            over_time(
                "Network",
                {
                    "{{pod}} received": of_containers("container_network_receive_bytes_total", counter=True),
                    "{{pod}} sent": of_containers("container_network_transmit_bytes_total", counter=True),
                },
                Text(
                    asks="How much do its pods send and receive? RDMA and the host's network do not pass here.",
                    when_bad="At the node's limit: fewer, larger messages; closer nodes (together=); RDMA.",
                ),
                Look(unit=units.BytesPerSecondSI),
            ),
            over_time(
                "CPU",
                {"{{pod}}": of_containers("container_cpu_usage_seconds_total", counter=True)},
                Text(
                    asks="How many cores does it use?",
                    when_bad="At its limit while it waits for data: the loaders need more cores.",
                ),
                Look(unit=units.NoUnit),
            ),
            over_time(
                "Memory",
                {"{{pod}}": of_containers("container_memory_working_set_bytes", counter=False)},
                Text(
                    asks="Does its memory grow?",
                    when_bad="Steady growth ends in an out-of-memory kill: a leak in the loaders, or shared memory.",
                ),
                Look(unit=units.BytesIEC),
            ),
            over_time(
                "Disk",
                {
                    "{{pod}} read": of_containers("container_fs_reads_bytes_total", counter=True),
                    "{{pod}} written": of_containers("container_fs_writes_bytes_total", counter=True),
                },
                Text(
                    asks="How much do its pods read from and write to the node's own disks? Network volumes do not "
                    "pass here.",
                    when_bad="At the disk's limit: keep the data in memory, or on faster disks.",
                ),
                Look(unit=units.BytesPerSecondSI),
            ),
            over_time(
                "Pods by phase",
                {
                    "{{phase}}": "sum by (phase) ("
                    + of_pods(
                        f"kube_pod_status_phase{{{PODS_OF_NAMESPACE}}}",
                    )
                    + ")"
                },
                Text(
                    asks="Are all its pods there?",
                    when_bad="Pending: make why JOB=… says what they wait for. Failed: the logs.",
                ),
                Look(stacked=True),
            ),
            rows(
                "Where its pods are",
                f"namespace_pod:workload:info{{{WORKLOAD}}}",
                {"pod": "pod", "role": "role", "node": "node", "queue": "queue"},
                Text(
                    asks="On which node is which pod?",
                    when_bad="A slow rank's node: look at it on the dashboard of the cluster.",
                ),
            ),
        ),
    )


def _safety(thresholds: TrainingThresholds) -> Section:
    return Section(
        title="Checkpoints and restarts",
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
            over_time(
                "Restarts",
                {
                    "{{pod}} containers": most(
                        10,
                        of_pods(
                            f"sum by (namespace, pod) (kube_pod_container_status_restarts_total{{{PODS_OF_NAMESPACE}}})"
                        ),
                    ),
                    "{{pod}} made anew within an hour": most(
                        10,
                        of_pods(
                            "count by (namespace, pod)"
                            f" (count_over_time(kube_pod_created{{{PODS_OF_NAMESPACE}}}[1h])) - 1"
                        ),
                    ),
                },
                Text(
                    asks="How often did it have to start again?",
                    when_bad="The logs of the pod that went first; preempted jobs restart, too.",
                ),
            ),
        ),
    )
