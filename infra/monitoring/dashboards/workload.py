"""The rows that the dashboards of jobs and services share: their GPUs and pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import RATIO, Limits, Look, Text, over_time, rows
from infra.monitoring.dashboards.promql import PODS_OF_NAMESPACE, WORKLOAD, most, of_pods, rate

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel


def gpus() -> Section:
    """Return the row about its GPUs."""
    # Each MIG instance of a card has the power of the card.
    return Section(
        title="GPUs",
        panels=(
            _gpu_busy(),
            _gpu_activity(),
            _lowest_gpu_clocks(),
            _gpu_memory(),
            _gpu_power(),
            _nvlink(),
            _pcie(),
        ),
    )


def _gpu_busy() -> Panel:
    return over_time(
        "GPU busy",
        {"{{pod}}": f"avg by (pod) (gpu:busy:ratio{{{WORKLOAD}}})"},
        Text(
            asks="Do its GPUs compute?",
            when_bad="Low: check the wait for data first, then the batch size.",
        ),
        RATIO,
    )


def _gpu_activity() -> Panel:
    return over_time(
        "GPU activity",
        {
            "multiprocessors": f"avg({_of_gpus('DCGM_FI_PROF_SM_ACTIVE')})",
            "tensor cores": f"avg({_of_gpus('DCGM_FI_PROF_PIPE_TENSOR_ACTIVE')})",
            "memory": f"avg({_of_gpus('DCGM_FI_PROF_DRAM_ACTIVE')})",
        },
        Text(
            asks="Which units of its GPUs are active, averaged over all of them?",
            when_bad="Tensor cores near 0 with active multiprocessors: bf16 is off, or shapes are not multiples of 8. "
            "Memory highest: fuse operations, or use a larger batch.",
        ),
        RATIO,
    )


def _lowest_gpu_clocks() -> Panel:
    clock = f"min by (namespace, pod) (DCGM_FI_DEV_SM_CLOCK{{{PODS_OF_NAMESPACE}}})"
    return over_time(
        "Lowest GPU clocks",
        {"{{pod}}": f"bottomk(10, {of_pods(clock)})"},
        Text(
            asks="Is one of its GPUs throttled, and with it the whole job? In MHz.",
            when_bad="One lower than the others under load: heat or power; the dashboard of the cluster shows which.",
        ),
        Look(unit=units.NoUnit),
    )


def _gpu_memory() -> Panel:
    return over_time(
        "GPU memory",
        {"{{pod}}": f"max by (pod) (gpu:memory_used:ratio{{{WORKLOAD}}})"},
        Text(
            asks="Is there room for a larger batch, or is the memory nearly exhausted?",
            when_bad="Above 95%: a longer sequence or fragmentation causes an out-of-memory error.",
        ),
        Look(unit=units.PercentUnit, most=1, limits=Limits(doubtful=0.9, bad=0.95)),
    )


def _gpu_power() -> Panel:
    power = f"max by (namespace, pod, node, gpu) (DCGM_FI_DEV_POWER_USAGE{{{PODS_OF_NAMESPACE}}})"
    return over_time(
        "GPU power",
        {"{{pod}}": of_pods(f"sum by (namespace, pod) ({power})")},
        Text(
            asks="Are the GPUs of all pods under equal load?",
            when_bad="One far lower: it waits for the others or is throttled. All low: the GPUs are waiting.",
        ),
        Look(unit=units.Watt),
    )


def _nvlink() -> Panel:
    return over_time(
        "NVLink",
        {
            "{{pod}}": of_pods(
                f"sum by (namespace, pod) (DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{PODS_OF_NAMESPACE}}}) * 1024000"
            )
        },
        Text(
            asks="Do its GPUs communicate over NVLink?",
            when_bad="No traffic in a job with several GPUs per node: NCCL chose another transport; see its log with "
            "NCCL_DEBUG=INFO.",
        ),
        Look(unit=units.BytesPerSecondSI),
    )


def _pcie() -> Panel:
    return over_time(
        "PCIe",
        {
            "{{pod}} to the host": _of_gpus("DCGM_FI_PROF_PCIE_TX_BYTES"),
            "{{pod}} from the host": _of_gpus("DCGM_FI_PROF_PCIE_RX_BYTES"),
        },
        Text(
            asks="How much data moves between host and GPU, averaged over a pod's GPUs?",
            when_bad="Near the limit of the slot: decode on the GPU, or transfer less data.",
        ),
        Look(unit=units.BytesPerSecondSI),
    )


def pods() -> Section:
    """Return the row about its pods."""
    return Section(
        title="Pods",
        panels=(
            _network(),
            _cpu(),
            _memory(),
            _disk(),
            _pods_by_phase(),
            _restarts(),
            _why_containers_terminated(),
            _where_its_pods_are(),
        ),
    )


def _network() -> Panel:
    return over_time(
        "Network",
        {
            "{{pod}} received": _of_containers("container_network_receive_bytes_total", counter=True),
            "{{pod}} sent": _of_containers("container_network_transmit_bytes_total", counter=True),
        },
        Text(
            asks="How much do its pods send and receive? Does not include RDMA or pods on the host network.",
            when_bad="At the node's limit: send fewer, larger messages, place the pods closer together (together=), or "
            "use RDMA.",
        ),
        Look(unit=units.BytesPerSecondSI),
    )


def _cpu() -> Panel:
    return over_time(
        "CPU",
        {"{{pod}}": _of_containers("container_cpu_usage_seconds_total", counter=True)},
        Text(
            asks="How many CPU cores does it use?",
            when_bad="At its limit while it waits for data: the data loaders need more cores.",
        ),
        Look(unit=units.NoUnit),
    )


def _memory() -> Panel:
    return over_time(
        "Memory",
        {"{{pod}}": _of_containers("container_memory_working_set_bytes", counter=False)},
        Text(
            asks="Does its memory grow?",
            when_bad="Steady growth ends in an out-of-memory kill: look for a leak in the data loaders, and at shared "
            "memory.",
        ),
        Look(unit=units.BytesIEC),
    )


def _disk() -> Panel:
    return over_time(
        "Disk",
        {
            "{{pod}} read": _of_containers("container_fs_reads_bytes_total", counter=True),
            "{{pod}} written": _of_containers("container_fs_writes_bytes_total", counter=True),
        },
        Text(
            asks="How much do its pods read from and write to the node's own disks? Does not include network volumes.",
            when_bad="At the disk's limit: keep the data in memory, or use faster disks.",
        ),
        Look(unit=units.BytesPerSecondSI),
    )


def _pods_by_phase() -> Panel:
    return over_time(
        "Pods by phase",
        {
            "{{phase}}": "sum by (phase) ("
            + of_pods(
                f"kube_pod_status_phase{{{PODS_OF_NAMESPACE}}}",
            )
            + ")"
        },
        Text(
            asks="Are all its pods running?",
            when_bad="Pending: make why JOB=… shows what they wait for. Failed: read the logs.",
        ),
        Look(stacked=True),
    )


def _restarts() -> Panel:
    return over_time(
        "Restarts",
        {
            "{{pod}} container restarts": most(
                10,
                of_pods(f"sum by (namespace, pod) (kube_pod_container_status_restarts_total{{{PODS_OF_NAMESPACE}}})"),
            ),
            "{{pod}} out-of-memory kills": _of_containers("container_oom_events_total", counter=False) + " > 0",
            "{{pod}} recreated within an hour": most(
                10,
                of_pods(
                    f"count by (namespace, pod) (count_over_time(kube_pod_created{{{PODS_OF_NAMESPACE}}}[1h])) - 1"
                ),
            ),
        },
        Text(
            asks="How often did its containers and pods restart?",
            when_bad="Read the logs of the pod that failed first. Preempted jobs restart, too.",
        ),
    )


def _why_containers_terminated() -> Panel:
    return rows(
        "Why containers terminated",
        "last_over_time("
        f"kube_pod_container_status_last_terminated_reason{{{PODS_OF_NAMESPACE}}}[$__range]) == 1"
        " and on (namespace, pod)"
        f" last_over_time(namespace_pod:workload:info{{{WORKLOAD}}}[$__range])",
        {"pod": "pod", "container": "container", "reason": "reason"},
        Text(
            asks="Why did containers terminate before they were restarted?",
            when_bad="OOMKilled: give it more memory. Error: read the logs from before the restart.",
        ),
    )


def _where_its_pods_are() -> Panel:
    return rows(
        "Where its pods are",
        f"last_over_time(namespace_pod:workload:info{{{WORKLOAD}}}[$__range])",
        {"pod": "pod", "role": "role", "node": "node", "queue": "queue"},
        Text(
            asks="On which node does, or did, each pod run?",
            when_bad="For the node of a slow rank, see the dashboard of the cluster.",
        ),
    )


def _of_gpus(metric: str) -> str:
    return of_pods(f"avg by (namespace, pod) ({metric}{{{PODS_OF_NAMESPACE}}})")


def _of_containers(metric: str, *, counter: bool) -> str:
    series = rate(metric, PODS_OF_NAMESPACE) if counter else f"{metric}{{{PODS_OF_NAMESPACE}}}"
    return most(10, of_pods(f"sum by (namespace, pod) ({series})"))
