"""The cluster and its GPUs: is everything there, is it used, is anything ill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards import gpu_fleet, platform_parts
from infra.monitoring.dashboards.board import Board, Section
from infra.monitoring.dashboards.panels import RATIO, Limits, Look, Text, number, over_time
from infra.monitoring.dashboards.promql import most

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import AlertThresholds, StorageThresholds

UID = "athanor-cluster"
_NO_CARD = 'device!~"lo|veth.*|cali.*|cni.*|docker.*|flannel.*|tunl.*|ipvl.*"'
_ON_DISK = 'fstype!~"tmpfs|ramfs|overlay|squashfs|fuse.*|nsfs"'
_NONE_IS_GOOD = Look(limits=Limits(doubtful=1, bad=1))


def board(thresholds: AlertThresholds) -> Board:
    """Return the dashboard."""
    return Board(
        uid=UID,
        title="Cluster and GPUs",
        about="Whether the nodes, the GPUs and the platform's own parts are there, used and healthy.",
        sections=(
            _now(),
            gpu_fleet.use(),
            gpu_fleet.health(thresholds.gpu),
            _nodes(thresholds.storage),
            platform_parts.platform(),
            platform_parts.logs(),
        ),
    )


def _now() -> Section:
    return Section(
        title="Now",
        panels=(
            number(
                "Nodes ready",
                'sum(kube_node_status_condition{condition="Ready", status="true"})',
                Text(asks="How many nodes can run pods?", when_bad="kubectl get nodes, and the panel beside it."),
            ),
            number(
                "Nodes not ready",
                'sum(kube_node_status_condition{condition="Ready", status=~"false|unknown"})',
                Text(
                    asks="How many nodes have left us?",
                    when_bad="kubectl describe node says since when and why; runbook NodeNotReady.",
                ),
                _NONE_IS_GOOD,
            ),
            number(
                "GPUs",
                "sum(node:gpus_allocatable:sum)",
                Text(
                    asks="How many GPUs can pods ask for?",
                    when_bad="Fewer than bought: a node is away, or its device plugin found fewer GPUs than it has.",
                ),
            ),
            number(
                "GPUs allocated",
                "sum(node:gpus_allocated:sum) / sum(node:gpus_allocatable:sum)",
                Text(
                    asks="Which share of the GPUs is given to pods?",
                    when_bad="Low while jobs wait: the Queues dashboard tells what they wait for.",
                ),
                RATIO,
            ),
            number(
                "GPUs busy",
                "avg(gpu:busy:ratio)",
                Text(
                    asks="Which share of the time do the GPUs compute, those that nobody has included?",
                    when_bad="Compare it with the share that is allocated: either jobs are missing, or they idle.",
                ),
                RATIO,
            ),
            number(
                "Alerts firing",
                'count(ALERTS{alertstate="firing"}) or vector(0)',
                Text(asks="What does Prometheus complain about now?", when_bad="The table of alerts at the end."),
                _NONE_IS_GOOD,
            ),
        ),
    )


def _nodes(thresholds: StorageThresholds) -> Section:
    fill = Limits(doubtful=thresholds.nearly_full_ratio, bad=thresholds.full_ratio)
    return Section(
        title="Nodes",
        panels=(
            over_time(
                "CPU of nodes",
                {
                    "{{node}}": most(
                        10, '1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[$__rate_interval]))'
                    )
                },
                Text(
                    asks="Which nodes' CPUs are busiest?",
                    when_bad="At 1 beside idle GPUs: data loading is too slow; give the job more CPU or fewer loaders.",
                ),
                RATIO,
            ),
            over_time(
                "Memory of nodes",
                {
                    "{{node}}": most(
                        10, "1 - max by (node) (node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)"
                    )
                },
                Text(
                    asks="Which nodes run out of memory?",
                    when_bad="Above 0.95 the kubelet evicts pods: set requests that are true.",
                ),
                Look(unit=units.PercentUnit, most=1, limits=Limits(doubtful=0.9, bad=0.95)),
            ),
            over_time(
                "File systems of nodes",
                {
                    "{{node}} {{mountpoint}}": most(
                        10,
                        f"1 - max by (node, mountpoint) (node_filesystem_avail_bytes{{{_ON_DISK}}}"
                        f" / node_filesystem_size_bytes{{{_ON_DISK}}})",
                    )
                },
                Text(
                    asks="Which disks are fullest?",
                    when_bad="A full disk of images or logs makes the node not ready: clean up, or buy larger disks.",
                ),
                Look(unit=units.PercentUnit, most=1, limits=fill),
            ),
            over_time(
                "Volumes",
                {
                    "{{namespace}}/{{persistentvolumeclaim}}": most(
                        10,
                        "max by (namespace, persistentvolumeclaim)"
                        " (kubelet_volume_stats_used_bytes / kubelet_volume_stats_capacity_bytes)",
                    )
                },
                Text(
                    asks="Which claims are nearly full?",
                    when_bad="Checkpoints fail when it is full: delete old runs, or enlarge it.",
                ),
                Look(unit=units.PercentUnit, most=1, limits=fill),
            ),
            over_time(
                "Network of nodes",
                {
                    "{{node}} received": most(
                        5, f"sum by (node) (rate(node_network_receive_bytes_total{{{_NO_CARD}}}[$__rate_interval]))"
                    ),
                    "{{node}} sent": most(
                        5, f"sum by (node) (rate(node_network_transmit_bytes_total{{{_NO_CARD}}}[$__rate_interval]))"
                    ),
                },
                Text(
                    asks="Which nodes talk most? RDMA does not pass here.",
                    when_bad="At the instance type's limit: jobs wait for data or gradients; spread them.",
                ),
                Look(unit=units.BytesPerSecondSI),
            ),
            over_time(
                "Network errors",
                {
                    "{{node}} {{device}}": most(
                        10,
                        f"sum by (node, device) (rate(node_network_receive_errs_total{{{_NO_CARD}}}[$__rate_interval])"
                        f" + rate(node_network_transmit_errs_total{{{_NO_CARD}}}[$__rate_interval])) > 0",
                    )
                },
                Text(
                    asks="Which network cards lose packets?",
                    when_bad="Any steady rate: a cable, a card or a switch; every job across it is slowed down.",
                ),
                Look(unit=units.PacketsPerSecond),
            ),
            over_time(
                "RDMA",
                {
                    "{{node}} received": most(
                        5, "sum by (node) (rate(node_infiniband_port_data_received_bytes_total[$__rate_interval]))"
                    ),
                    "{{node}} sent": most(
                        5, "sum by (node) (rate(node_infiniband_port_data_transmitted_bytes_total[$__rate_interval]))"
                    ),
                },
                Text(
                    asks="Do jobs that asked for RDMA use it?",
                    when_bad="Nothing while such a job runs: NCCL fell back to TCP; see its log at INFO.",
                ),
                Look(unit=units.BytesPerSecondSI),
            ),
            over_time(
                "RDMA errors",
                {
                    "{{node}} {{device}} receive errors": most(
                        5,
                        "sum by (node, device)"
                        " (increase(node_infiniband_port_receive_errors_total[$__rate_interval])) > 0",
                    ),
                    "{{node}} {{device}} link down": most(
                        5, "sum by (node, device) (increase(node_infiniband_link_downed_total[$__rate_interval])) > 0"
                    ),
                },
                Text(
                    asks="Does an RDMA card or its link fail?",
                    when_bad="Again and again: take the node out; a link that flaps stops every job across it.",
                ),
            ),
            over_time(
                "Disks of nodes",
                {
                    "{{node}} {{device}}": most(
                        10, "max by (node, device) (rate(node_disk_io_time_seconds_total[$__rate_interval]))"
                    )
                },
                Text(
                    asks="Which disks are busy all the time?",
                    when_bad="At 1: what reads or writes there waits, image pulls and etcd included; faster disks.",
                ),
                RATIO,
            ),
            over_time(
                "Out-of-memory kills",
                {"{{node}}": most(10, "sum by (node) (increase(node_vmstat_oom_kill[$__rate_interval])) > 0")},
                Text(
                    asks="Where does the kernel kill for want of memory?",
                    when_bad="The pod's dashboard names the container: raise its limit, or find the leak.",
                ),
            ),
        ),
    )
