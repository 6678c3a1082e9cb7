"""The rows that the dashboards of a job and of a service have in common: its GPUs and its pods."""

from __future__ import annotations

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import RATIO, Limits, Look, Text, over_time, rows
from infra.monitoring.dashboards.promql import PODS_OF_NAMESPACE, WORKLOAD, most, of_pods, rate


def gpus() -> Section:
    """Return what shows its GPUs."""

    def of_gpus(metric: str) -> str:
        return of_pods(f"avg by (namespace, pod) ({metric}{{{PODS_OF_NAMESPACE}}})")

    clock = f"min by (namespace, pod) (DCGM_FI_DEV_SM_CLOCK{{{PODS_OF_NAMESPACE}}})"
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
                "What its GPUs do",
                {
                    "multiprocessors": f"avg({of_gpus('DCGM_FI_PROF_SM_ACTIVE')})",
                    "tensor cores": f"avg({of_gpus('DCGM_FI_PROF_PIPE_TENSOR_ACTIVE')})",
                    "memory": f"avg({of_gpus('DCGM_FI_PROF_DRAM_ACTIVE')})",
                },
                Text(
                    asks="Which part of its GPUs works, mean of all of them?",
                    when_bad="Tensor cores near 0 with busy multiprocessors: no bf16, or shapes that are no multiples "
                    "of 8. Memory highest: fuse operations, or a larger batch.",
                ),
                RATIO,
            ),
            over_time(
                "Clock of its slowest GPUs",
                {"{{pod}}": f"bottomk(10, {of_pods(clock)})"},
                Text(
                    asks="Is one of its GPUs held down, and with it the whole job? In MHz.",
                    when_bad="One lower than the rest under load: heat or power; the cluster's dashboard tells which.",
                ),
                Look(unit=units.NoUnit),
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


def pods() -> Section:
    """Return what shows its pods."""

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
            over_time(
                "Restarts",
                {
                    "{{pod}} containers": most(
                        10,
                        of_pods(
                            f"sum by (namespace, pod) (kube_pod_container_status_restarts_total{{{PODS_OF_NAMESPACE}}})"
                        ),
                    ),
                    "{{pod}} killed for want of memory": of_containers("container_oom_events_total", counter=False)
                    + " > 0",
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
            rows(
                "Why containers ended before",
                "last_over_time("
                f"kube_pod_container_status_last_terminated_reason{{{PODS_OF_NAMESPACE}}}[$__range]) == 1"
                " and on (namespace, pod)"
                f" last_over_time(namespace_pod:workload:info{{{WORKLOAD}}}[$__range])",
                {"pod": "pod", "container": "container", "reason": "reason"},
                Text(
                    asks="Why did containers that were started again end?",
                    when_bad="OOMKilled: more memory. Error: the log before it, on the page of logs.",
                ),
            ),
            rows(
                "Where its pods are",
                f"last_over_time(namespace_pod:workload:info{{{WORKLOAD}}}[$__range])",
                {"pod": "pod", "role": "role", "node": "node", "queue": "queue"},
                Text(
                    asks="On which node is or was which pod?",
                    when_bad="A slow rank's node: look at it on the dashboard of the cluster.",
                ),
            ),
        ),
    )
