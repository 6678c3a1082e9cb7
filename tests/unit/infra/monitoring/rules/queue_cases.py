"""Who waits in queues, and when somebody must know."""

from tests.unit.infra.monitoring.rules.pod_cases import labelled_pod
from tests.unit.infra.monitoring.rules.promtool import AlertCase, RecordingCase, series

_DIGITS = {"namespace": "team", "workload": "digits", "queue": "research"}
_PENDING = labelled_pod("digits-0", job="digits", node="", phase="Pending", phase_values="1x80 0x80")
_CREATED = 'kube_pod_created{namespace="team", pod="digits-0"}'


def _quota(kind, values, resource="requests.nvidia.com/gpu"):
    labels = {"namespace": "team", "resourcequota": "workloads", "resource": resource, "type": kind}
    return {series("kube_resourcequota", labels): values}


def _queue(metric, values, queue="research", **more):
    return {series(f"volcano_queue_{metric}", {"queue_name": queue, **more}): values}


CASES = (
    AlertCase(
        alert="GangPending",
        says="for an hour, until it has its nodes; one that runs as long does not wait",
        series={
            **_PENDING,
            _CREATED: "0x200",
            **labelled_pod("runs-0", job="runs"),
            'kube_pod_created{namespace="team", pod="runs-0"}': "0x200",
        },
        fires={"63m": [_DIGITS], "80m": [_DIGITS]},
        quiet=["61m", "82m"],
    ),
    AlertCase(
        alert="GangNotAdmitted",
        says="for an hour, without pods",
        series={
            **_queue("pod_group_pending_count", "0x4 2x80 0x40"),
            **_queue("pod_group_pending_count", "0x120", queue="idle"),
        },
        fires={"66m": [{"queue": "research"}]},
        quiet=["64m", "86m"],
    ),
    AlertCase(
        alert="JobOverlooked",
        says="admitted for five minutes, without a pod that waits",
        series={
            **_queue("pod_group_inqueue_count", "0x4 2x20 0x40"),
            **_queue("pod_group_inqueue_count", "0x4 2x20 0x40", queue="busy"),
            **labelled_pod("waits-0", job="waits", node="", phase="Pending", queue="busy"),
        },
        fires={"10m": [{"queue": "research"}]},
        quiet=["8m", "26m"],
    ),
    AlertCase(
        alert="QuotaExhausted",
        says="for a quarter of an hour, by resource",
        series={
            **_quota("used", "1x4 8x30 2x30"),
            **_quota("hard", "8x100"),
            **_quota("used", "1x100", "pods"),
            **_quota("hard", "100x100", "pods"),
            **_quota("used", "0x100", "requests.cpu"),
            **_quota("hard", "0x100", "requests.cpu"),
        },
        fires={"21m": [{"namespace": "team", "resourcequota": "workloads", "resource": "requests.nvidia.com/gpu"}]},
        quiet=["19m", "36m"],
    ),
    AlertCase(
        alert="QueueAtLimit",
        says="only while somebody waits in it",
        series={
            **_PENDING,
            **_queue("deserved_milli_cpu", "0x200"),
            **_queue("deserved_milli_cpu", "0x200", queue="calm"),
            **_queue("allocated_scalar_resources", "8000x200", resource="nvidia.com/gpu"),
            **_queue("capacity_scalar_resources", "8000x200", resource="nvidia.com/gpu"),
            **_queue("allocated_scalar_resources", "8000x200", queue="calm", resource="nvidia.com/gpu"),
            **_queue("capacity_scalar_resources", "8000x200", queue="calm", resource="nvidia.com/gpu"),
            **_queue("allocated_milli_cpu", "1000x200"),
            **_queue("capacity_milli_cpu", "64000x200"),
        },
        fires={"18m": [{"queue": "research", "resource": "nvidia.com/gpu"}]},
        quiet=["10m", "83m"],
    ),
    RecordingCase(
        record="queue:pods_pending:sum",
        says="0 where nobody waits",
        series={
            **_PENDING,
            **_queue("deserved_milli_cpu", "0x200"),
            **_queue("deserved_milli_cpu", "0x200", queue="idle"),
            **_queue("deserved_milli_cpu", "0x200", queue="root"),
        },
        at="5m",
        gives={'{queue="research"}': 1, '{queue="idle"}': 0},
    ),
    *(
        RecordingCase(
            record=f"queue:wait_seconds:p{percent}",
            says="in seconds, of all jobs that Volcano knows",
            series={
                f'volcano_e2e_job_scheduling_duration{{job_name="j{job}", queue="research"}}': f"{job * 1000}x10"
                for job in range(11)
            },
            at="5m",
            gives={'{queue="research"}': percent / 10},
        )
        for percent in (50, 90)
    ),
    RecordingCase(
        record="queue:capacity_used:ratio",
        says="of each limited resource",
        series={
            **_queue("allocated_scalar_resources", "2000x10", resource="nvidia.com/gpu"),
            **_queue("capacity_scalar_resources", "8000x10", resource="nvidia.com/gpu"),
            **_queue("allocated_milli_cpu", "1000x10"),
            **_queue("capacity_milli_cpu", "4000x10"),
            **_queue("allocated_memory_bytes", "10x10"),
        },
        at="5m",
        gives={'{queue="research", resource="nvidia.com/gpu"}': 0.25, '{queue="research", resource="cpu"}': 0.25},
    ),
)
