"""How jobs train, and when somebody must know."""

from tests.unit.infra.monitoring.rules.pod_cases import labelled_pod
from tests.unit.infra.monitoring.rules.promtool import AlertCase, RecordingCase, series

_JOB = {"namespace": "team", "workload": "digits"}


def training(name, rank=0, *, job="digits", run="digits-0a1b2c3d", instance=None, **more):
    """Return the name of a series of a rank."""
    labels = {
        "job": "training",
        "namespace": "team",
        "pod": f"{job}-{rank}",
        "instance": instance or f"10.0.0.{rank}:8002",
        "workload": job,
        "run": run,
        "rank": str(rank),
        **more,
    }
    return series(name, labels)


def metric(name, rank=0, **more):
    """Return the name of a series of the trainer."""
    return training(f"athanor_training_{name}", rank, **more)


def steps(rank=0, *, seconds=1, own=1.0, waits=None):
    """Return an hour of steps, 60 a minute if each takes a second."""
    count = 60 / seconds
    parts = {
        "step_seconds": 60,
        "own_seconds": count * own,
        "data_wait_seconds": None if waits is None else count * waits,
    }
    return {
        metric(f"{part}_{suffix}", rank): f"0+{value:g}x60"
        for part, total in parts.items()
        if total is not None
        for suffix, value in (("sum", total), ("count", count))
    }


_NAN, _INFINITE = ("NaN " * 10).strip(), ("Inf " * 10).strip()
_STEP_TIME = "last_step_timestamp_seconds"
_NOT_FINITE = "nonfinite_loss_total"
_COMPLETIONS = "volcano_job_completed_phase_count"
_FAILURES = "volcano_job_failed_phase_count"

CASES = (
    AlertCase(
        alert="TrainingStalled",
        says="no rank completes a step, until they continue",
        series={
            metric(_STEP_TIME): "0+60x10 600x30 2400+60x60",
            metric(_STEP_TIME, 1): "0+60x10 600x30 2400+60x60",
            metric(_STEP_TIME, job="other"): "0+60x100",
        },
        fires={"27m": [_JOB], "40m": [_JOB]},
        quiet=["10m", "26m", "43m"],
    ),
    AlertCase(
        alert="TrainingStalled",
        says="not even the first step is completed, until the pods are gone",
        series={metric(_STEP_TIME): "0x30 stale"},
        fires={"17m": [_JOB], "30m": [_JOB]},
        quiet=["15m", "31m"],
    ),
    AlertCase(
        alert="TrainingStalled",
        says="one rank that reports nothing new is not enough",
        series={metric(_STEP_TIME): "0+60x60", metric(_STEP_TIME, 1): "0x60"},
        fires={},
        quiet=["10m", "60m"],
    ),
    AlertCase(
        alert="TrainingLossNotFinite",
        says="while a program computes with it",
        series={metric("loss"): f"0.5x4 {_NAN} 0.4x30", metric("loss", job="other"): "0.5x60"},
        fires={"5m": [_JOB], "14m": [_JOB]},
        quiet=["4m", "16m"],
    ),
    AlertCase(
        alert="TrainingLossNotFinite",
        says="infinite",
        series={metric("loss"): f"0.5x4 {_INFINITE} 0.4x30"},
        fires={"5m": [_JOB]},
        quiet=["4m", "16m"],
    ),
    AlertCase(
        alert="TrainingLossNotFinite",
        says="counted by a program that continues",
        series={metric(_NOT_FINITE): "0x4 1x60", metric(_NOT_FINITE, job="other"): "0x60"},
        fires={"5m": [_JOB], "19m": [_JOB]},
        quiet=["4m", "20m", "40m"],
    ),
    AlertCase(
        alert="TrainingLossNotFinite",
        says="reported by the next process of the run, which starts with the count",
        series={
            metric(_NOT_FINITE): "0x4 stale",
            metric(_NOT_FINITE, instance="10.0.0.9:8002"): "_x6 1x100",
            metric(_NOT_FINITE, job="other", run="long-ago"): "3x100",
        },
        # Prometheus does not know either when the other run met it, until its window is over.
        fires={"7m": [_JOB, {"namespace": "team", "workload": "other"}], "20m": [_JOB]},
        quiet=["23m", "60m"],
    ),
    AlertCase(
        alert="TrainingStraggler",
        says="takes half as long again before it meets the others, until it is as fast as they are",
        series={
            **steps(0, seconds=2, own=1),
            **steps(1, seconds=2, own=1),
            metric("step_seconds_sum", 2): "0+60x60",
            metric("step_seconds_count", 2): "0+30x60",
            metric("own_seconds_sum", 2): "0+57x30 1710+30x30",
            metric("own_seconds_count", 2): "0+30x60",
        },
        fires={"20m": [{**_JOB, "rank": "2"}], "30m": [{**_JOB, "rank": "2"}]},
        quiet=["15m", "37m", "60m"],
    ),
    AlertCase(
        alert="TrainingStraggler",
        says="one of two ranks has a GPU that needs half as long again for each step",
        series={**steps(0, seconds=1.5, own=0.9), **steps(1, seconds=1.5, own=1.4)},
        fires={"20m": [{**_JOB, "rank": "1"}]},
        quiet=["15m"],
    ),
    AlertCase(
        alert="TrainingStraggler",
        says="a rank that differs by a hundredth of a step holds nobody up",
        series={**steps(0, own=0.01), **steps(1, own=0.01), **steps(2, own=0.02)},
        fires={},
        quiet=["20m", "60m"],
    ),
    AlertCase(
        alert="TrainingRankSilent",
        says="answered before; a program without metrics never did",
        series={
            training("up"): "1x4 0x10 1x30",
            training("up", job="batch"): "0x45",
        },
        fires={
            "7m": [
                {
                    **_JOB,
                    "job": "training",
                    "pod": "digits-0",
                    "instance": "10.0.0.0:8002",
                    "run": "digits-0a1b2c3d",
                    "rank": "0",
                }
            ]
        },
        quiet=["5m", "16m"],
    ),
    AlertCase(
        alert="TrainingCheckpointTooOld",
        says="two hours after the last one, until there is another",
        series={
            metric("checkpoint_age_seconds"): "0+60x150 0+60x60",
            metric("checkpoint_age_seconds", 1): "0+60x150 0+60x60",
        },
        fires={"125m": [_JOB], "150m": [_JOB]},
        quiet=["121m", "152m"],
    ),
    AlertCase(
        alert="TrainingCheckpointTooOld",
        says="two hours after the start if there is none; programs that say nothing of their training make none",
        series={
            **labelled_pod("digits-0", job="digits"),
            **labelled_pod("batch-0", job="batch"),
            'kube_pod_start_time{namespace="team", pod="digits-0"}': "0x200",
            'kube_pod_start_time{namespace="team", pod="batch-0"}': "0x200",
            metric("step"): "0+1x200",
            metric("checkpoint_age_seconds"): "_x150 0+60x50",
        },
        fires={"125m": [_JOB]},
        quiet=["119m", "152m"],
    ),
    AlertCase(
        alert="TrainingCheckpointFailed",
        says="for half an hour",
        series={
            metric("checkpoint_failures_total"): "0x4 1x100",
            metric("checkpoint_failures_total", job="other"): "2x100",
        },
        fires={"6m": [_JOB], "30m": [_JOB]},
        quiet=["4m", "40m"],
    ),
    AlertCase(
        alert="JobFailed",
        says="first time, which makes the counter",
        series={
            f'{_FAILURES}{{job_name="team/digits-0a1b2c3d", queue_name="research"}}': "_x5 1x100",
        },
        fires={"5m": [{**_JOB, "queue": "research"}], "30m": [{**_JOB, "queue": "research"}]},
        quiet=["4m", "36m"],
    ),
    AlertCase(
        alert="JobFailed",
        says="again, and one that failed yesterday",
        series={
            f'{_FAILURES}{{job_name="team/digits-0a1b2c3d", queue_name="research"}}': "1x40 2x100",
            f'{_FAILURES}{{job_name="team/over-0a1b2c3d", queue_name="research"}}': "1x140",
        },
        fires={"50m": [{**_JOB, "queue": "research"}]},
        quiet=["40m", "80m"],
    ),
    AlertCase(
        alert="JobFailed",
        says="for half an hour if its policies ended it: a pod has failed, and none runs or waits",
        series={
            **labelled_pod("digits-0", job="digits", phase="Failed", phase_values="0x5 1x195"),
            **labelled_pod("digits-1", job="digits", phase="Running", phase_values="1x10 0x190"),
            **labelled_pod("goes-0", job="goes", phase="Failed"),
            **labelled_pod("goes-1", job="goes", phase="Pending"),
            **labelled_pod("again-0", job="again", phase="Failed", phase_values="0x20 1 stale"),
        },
        fires={time: [{**_JOB, "queue": "research"}] for time in ("12m", "20m30s", "34m")},
        quiet=["9m", "42m"],
    ),
    AlertCase(
        alert="JobCompleted",
        says="once, and then another run of it under its name",
        series={
            f'{_COMPLETIONS}{{job_name="team/digits-0a1b2c3d", queue_name="research"}}': "_x5 1x60 2x60",
            f'{_FAILURES}{{job_name="team/other-0a1b2c3d", queue_name="research"}}': "_x5 1x120",
        },
        fires={"5m": [{**_JOB, "queue": "research"}], "67m": [{**_JOB, "queue": "research"}]},
        quiet=["4m", "40m", "110m"],
    ),
    AlertCase(
        alert="JobRestartsOften",
        says="three times in half an hour",
        series={
            **{
                name.replace("digits-0-1", f"digits-0-{life}"): values
                for life in range(4)
                for name, values in labelled_pod(
                    "digits-0", job="digits", alive=f"_x{4 * life} 1x{3 if life < 3 else 100} stale"
                ).items()
            },
            **labelled_pod("calm-0", job="calm"),
        },
        fires={"14m": [{**_JOB, "queue": "research"}], "30m": [{**_JOB, "queue": "research"}]},
        quiet=["10m", "60m"],
    ),
    RecordingCase(
        record="workload:samples_per_second:sum",
        says="each rank reports those of all",
        series={metric("samples_per_second"): "800x10", metric("samples_per_second", 1): "790x10"},
        at="5m",
        gives={'{namespace="team", workload="digits"}': 800},
    ),
    RecordingCase(
        record="workload:data_wait:ratio",
        says="of all ranks' steps",
        series={**steps(0, waits=0.5), **steps(1, waits=0.25)},
        at="30m",
        gives={'{namespace="team", workload="digits"}': 0.375},
    ),
    RecordingCase(
        record="workload_rank:step_seconds:mean",
        says="of each rank",
        series={**steps(0, seconds=2), **steps(1, seconds=4)},
        at="30m",
        gives={
            '{namespace="team", workload="digits", rank="0"}': 2,
            '{namespace="team", workload="digits", rank="1"}': 4,
        },
    ),
    RecordingCase(
        record="workload_rank:straggling:ratio",
        says="share of a step, against the middle rank",
        series={
            name: values
            for rank, own in enumerate((0.5, 0.5, 0.75, 0.5))
            for name, values in steps(rank, own=own).items()
        },
        at="30m",
        gives={
            **{f'{{namespace="team", workload="digits", rank="{rank}"}}': 0 for rank in (0, 1, 3)},
            '{namespace="team", workload="digits", rank="2"}': 0.25,
        },
    ),
    RecordingCase(
        record="workload_rank:own_seconds:mean",
        says="measured, else the wait for data",
        series={
            **steps(0, own=0.5, waits=0.25),
            **{name: values for name, values in steps(1, waits=0.25).items() if "own" not in name},
        },
        at="30m",
        gives={
            '{namespace="team", workload="digits", rank="0"}': 0.5,
            '{namespace="team", workload="digits", rank="1"}': 0.25,
        },
    ),
    RecordingCase(
        record="workload:step_seconds:p50",
        says="between the bounds of its bucket",
        series={
            metric("step_seconds_bucket", le="1"): "0+0x60",
            metric("step_seconds_bucket", le="2"): "0+60x60",
            metric("step_seconds_bucket", le="+Inf"): "0+60x60",
        },
        at="30m",
        gives={'{namespace="team", workload="digits"}': 1.5},
    ),
    RecordingCase(
        record="workload:checkpoint_age_seconds:min",
        says="the latest that any rank knows",
        series={metric("checkpoint_age_seconds"): "60x10", metric("checkpoint_age_seconds", 1): "90x10"},
        at="5m",
        gives={'{namespace="team", workload="digits"}': 60},
    ),
)
