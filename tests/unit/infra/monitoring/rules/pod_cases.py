"""Which workload a pod belongs to, and the GPUs it holds."""

from tests.unit.infra.monitoring.rules.promtool import RecordingCase


def labelled_pod(
    pod,
    *,
    job=None,
    service=None,
    node="n1",
    phase="Running",
    queue="research",
    gpus=0,
    alive="1x200",
    phase_values=None,
):
    """Return what kube-state-metrics says of a pod."""
    mine = f'namespace="team", pod="{pod}", uid="{pod}-1"'
    if job:
        names = f'label_athanor_dev_job="{job}", label_athanor_dev_kind="pytorch", label_athanor_dev_role="worker"'
        names += f', label_volcano_sh_queue_name="{queue}"'
    else:
        names = f'label_athanor_dev_service="{service}"' if service else 'label_app="other"'
    series = {
        f"kube_pod_labels{{{mine}, {names}}}": alive,
        f'kube_pod_info{{{mine}, node="{node}", created_by_kind="Job"}}': alive,
        f'kube_pod_status_phase{{{mine}, phase="{phase}"}}': phase_values or alive,
    }
    if gpus:
        resource = f'container="main", node="{node}", resource="nvidia_com_gpu", unit="integer"'
        value = alive.replace("1", str(gpus), 1)
        series[f"kube_pod_container_resource_requests{{{mine}, {resource}}}"] = value
    return series


_PODS = {
    **labelled_pod("digits-0", job="digits", gpus=2),
    **labelled_pod("digits-1", job="digits", gpus=2, node="n2"),
    **labelled_pod("over-0", job="over", gpus=8, phase="Succeeded"),
    **labelled_pod("waits-0", job="waits", gpus=8, node="", phase="Pending"),
    **labelled_pod("answers-0", service="answers", gpus=1),
    **labelled_pod("stranger", gpus=1),
}
_GPU_WORDS = 'namespace="team", kind="pytorch", role="worker", queue="research", workload="digits"'

CASES = (
    RecordingCase(
        record="namespace_pod:workload:info",
        says="pods of jobs and services, and no others",
        series=_PODS,
        at="5m",
        gives={
            f'{{pod="digits-0", node="n1", {_GPU_WORDS}}}': 1,
            f'{{pod="digits-1", node="n2", {_GPU_WORDS}}}': 1,
            '{namespace="team", pod="over-0", node="n1", kind="pytorch", role="worker", queue="research",'
            ' workload="over"}': 1,
            '{namespace="team", pod="waits-0", kind="pytorch", role="worker", queue="research", workload="waits"}': 1,
            '{namespace="team", pod="answers-0", node="n1", kind="service", workload="answers"}': 1,
        },
    ),
    RecordingCase(
        record="namespace_pod:workload:info",
        says="one of a pod that was recreated on another node",
        series={
            **labelled_pod("digits-0", job="digits", alive="1x3"),
            **{
                name.replace("-1", "-2"): values
                for name, values in labelled_pod("digits-0", job="digits", node="n2", alive="_x2 1x20").items()
            },
        },
        at="20m",
        gives={f'{{pod="digits-0", node="n2", {_GPU_WORDS}}}': 1},
    ),
    RecordingCase(
        record="namespace_pod:gpus_allocated:sum",
        says="of pods that have a node and are not over, no matter what created them",
        series=_PODS,
        at="5m",
        gives={
            f'{{pod="digits-0", node="n1", {_GPU_WORDS}}}': 2,
            f'{{pod="digits-1", node="n2", {_GPU_WORDS}}}': 2,
            '{namespace="team", pod="answers-0", node="n1", kind="service", workload="answers"}': 1,
            '{namespace="team", pod="stranger", node="n1"}': 1,
        },
    ),
    RecordingCase(
        record="node:gpus_allocated:sum",
        says="all pods of a node",
        series=_PODS,
        at="5m",
        gives={'{node="n1"}': 4, '{node="n2"}': 2},
    ),
    RecordingCase(
        record="node:gpus_allocatable:sum",
        says="GPUs and MIG instances, and no nodes without",
        series={
            'kube_node_status_allocatable{node="n1", resource="nvidia_com_gpu"}': "8x10",
            'kube_node_status_allocatable{node="n2", resource="nvidia_com_mig_1g_10gb"}': "7x10",
            'kube_node_status_allocatable{node="n3", resource="nvidia_com_gpu"}': "0x10",
            'kube_node_status_allocatable{node="n3", resource="cpu"}': "4x10",
            'kube_node_status_allocatable{node="n4", resource="nvidia_com_gpu_shared"}': "32x10",
        },
        at="5m",
        gives={'{node="n1"}': 8, '{node="n2"}': 7},
    ),
    RecordingCase(
        record="queue:gpus_allocated:sum",
        says="by queue; services and strangers have none",
        series=_PODS,
        at="5m",
        gives={'{queue="research"}': 4, "{}": 2},
    ),
    RecordingCase(
        record="workload:gpu_hours:increase1h",
        says="half an hour of two GPUs is one GPU-hour",
        series=labelled_pod("digits-0", job="digits", gpus=2, alive="1x29 stale"),
        at="45m",
        gives={'{namespace="team", workload="digits", queue="research"}': 1},
    ),
    RecordingCase(
        record="queue:gpu_hours:increase1h",
        says="all jobs of a queue together",
        series={
            **labelled_pod("digits-0", job="digits", gpus=2, alive="1x29 stale"),
            **labelled_pod("more-0", job="more", gpus=4, alive="1x29 stale"),
        },
        at="45m",
        gives={'{queue="research"}': 3},
    ),
)
