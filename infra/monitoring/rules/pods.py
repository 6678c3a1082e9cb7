"""Recording rules about pods: their workloads and their GPUs, which most other rules join with.

Metrics: kube-state-metrics, docs/metrics/workload/pod-metrics.md and docs/metrics/cluster/node-metrics.md.
"""

from __future__ import annotations

from infra.monitoring.rules.rule import Area, Recording

WORKLOAD_INFO = "namespace_pod:workload:info"
WORKLOAD_LABELS = "workload, kind, role, queue"
GPUS_ALLOCATED = "namespace_pod:gpus_allocated:sum"
GPU_RESOURCES = "nvidia_com_(gpu|mig_.+)"
"""Resource names of whole GPUs and MIG instances as kube-state-metrics writes them; shares of GPUs are none."""
ANY_GPU_RESOURCES = f"{GPU_RESOURCES}|nvidia_com_gpu_shared|aliyun_com_gpu_mem"
"""The same and shares of GPUs: what a node with GPUs offers, whatever way they are given out."""


def of_workload(expr: str, labels: str = "workload, queue") -> str:
    """Return an expression by pod with labels of the pod's workload added; pods of none are left out."""
    return f"({expr}) * on (namespace, pod) group_left ({labels}) {WORKLOAD_INFO}"


def in_phase(phases: str) -> str:
    """Return a condition by pod: it is in one of these phases, such as `Pending|Running`."""
    return f'(kube_pod_status_phase{{phase=~"{phases}"}} == 1)'


def area() -> Area:
    """Return the recording rules."""
    return Area(
        name="pods",
        recordings=(
            Recording(record=WORKLOAD_INFO, expr=_workload_info()),
            Recording(record=GPUS_ALLOCATED, expr=_gpus_allocated()),
            Recording(
                record="node:gpus_allocatable:sum",
                expr=f'sum by (node) (kube_node_status_allocatable{{resource=~"{GPU_RESOURCES}"}}) > 0',
            ),
            Recording(record="node:gpus_allocated:sum", expr=f"sum by (node) ({GPUS_ALLOCATED})"),
            Recording(record="queue:gpus_allocated:sum", expr=f"sum by (queue) ({GPUS_ALLOCATED})"),
            Recording(
                record="workload:gpus_allocated:sum", expr=f"sum by (namespace, workload, queue) ({GPUS_ALLOCATED})"
            ),
            # One GPU held for an hour is 1.
            Recording(
                record="workload:gpu_hours:increase1h",
                expr="sum_over_time(workload:gpus_allocated:sum[1h:30s]) / 120",
            ),
            Recording(record="queue:gpu_hours:increase1h", expr="sum by (queue) (workload:gpu_hours:increase1h)"),
        ),
    )


def _workload_info() -> str:
    jobs = _relabeled(
        'kube_pod_labels{label_athanor_dev_job!=""}',
        workload="label_athanor_dev_job",
        kind="label_athanor_dev_kind",
        role="label_athanor_dev_role",
        queue="label_volcano_sh_queue_name",
    )
    services = _relabeled(
        'kube_pod_labels{label_athanor_dev_service!=""}',
        workload="label_athanor_dev_service",
        role="label_athanor_dev_role",
    )
    services = f'label_replace({services}, "kind", "service", "", "")'
    # A pod that was recreated under its name is there twice until the old series is stale; joins want one.
    return f"""
        topk by (namespace, pod) (1,
          max by (namespace, pod, node, {WORKLOAD_LABELS}) (
            ({jobs} or {services})
            * on (namespace, pod) group_left (node) topk by (namespace, pod) (1, kube_pod_info)
          )
        )"""


def _relabeled(series: str, **sources: str) -> str:
    for label, source in sources.items():
        series = f'label_replace({series}, "{label}", "$1", "{source}", "(.*)")'
    return series


def _gpus_allocated() -> str:
    held = f"""
        sum by (namespace, pod, node) (kube_pod_container_resource_requests{{resource=~"{GPU_RESOURCES}", node!=""}})
        and on (namespace, pod) {in_phase("Pending|Running")}"""
    known = of_workload(held, WORKLOAD_LABELS)
    return f"({known}) or on (namespace, pod) ({held})"
