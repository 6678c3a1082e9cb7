"""The row of the cluster's dashboard about its nodes: CPU, memory, disks and networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import RATIO, Limits, Look, Text, over_time
from infra.monitoring.dashboards.promql import most

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel
    from infra.settings.alert_thresholds import StorageThresholds

_NO_CARD = 'device!~"lo|veth.*|cali.*|cni.*|docker.*|flannel.*|tunl.*|ipvl.*"'
_ON_DISK = 'fstype!~"tmpfs|ramfs|overlay|squashfs|fuse.*|nsfs"'


def section(thresholds: StorageThresholds) -> Section:
    """Return the row."""
    fill = Limits(doubtful=thresholds.nearly_full_ratio, bad=thresholds.full_ratio)
    return Section(
        title="Nodes",
        panels=(
            _cpu_of_nodes(),
            _memory_of_nodes(),
            _file_systems_of_nodes(fill),
            _volumes(fill),
            _network_of_nodes(),
            _network_errors(),
            _rdma(),
            _rdma_errors(),
            _disks_of_nodes(),
            _out_of_memory_kills(),
        ),
    )


def _cpu_of_nodes() -> Panel:
    return over_time(
        "CPU of nodes",
        {"{{node}}": most(10, '1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[$__rate_interval]))')},
        Text(
            asks="Which nodes have the busiest CPUs?",
            when_bad="At 100% while GPUs are idle: data loading is the bottleneck. Give the job more CPUs, or use "
            "fewer loaders.",
        ),
        RATIO,
    )


def _memory_of_nodes() -> Panel:
    return over_time(
        "Memory of nodes",
        {"{{node}}": most(10, "1 - max by (node) (node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)")},
        Text(
            asks="Which nodes are running out of memory?",
            when_bad="Above 95% the kubelet evicts pods: set memory requests that match what pods use.",
        ),
        Look(unit=units.PercentUnit, most=1, limits=Limits(doubtful=0.9, bad=0.95)),
    )


def _file_systems_of_nodes(fill: Limits) -> Panel:
    return over_time(
        "File systems of nodes",
        {
            "{{node}} {{mountpoint}}": most(
                10,
                f"1 - max by (node, mountpoint) (node_filesystem_avail_bytes{{{_ON_DISK}}}"
                f" / node_filesystem_size_bytes{{{_ON_DISK}}})",
            )
        },
        Text(
            asks="Which file systems are the fullest?",
            when_bad="A full disk of images or logs puts the node under disk pressure: clean up, or use larger disks.",
        ),
        Look(unit=units.PercentUnit, most=1, limits=fill),
    )


def _volumes(fill: Limits) -> Panel:
    return over_time(
        "Volumes",
        {
            "{{namespace}}/{{persistentvolumeclaim}}": most(
                10,
                "max by (namespace, persistentvolumeclaim)"
                " (kubelet_volume_stats_used_bytes / kubelet_volume_stats_capacity_bytes)",
            )
        },
        Text(
            asks="Which volumes are nearly full?",
            when_bad="Checkpoints fail on a full volume: delete old runs, or enlarge the volume.",
        ),
        Look(unit=units.PercentUnit, most=1, limits=fill),
    )


def _network_of_nodes() -> Panel:
    return over_time(
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
            asks="Which nodes have the most network traffic? Does not include RDMA.",
            when_bad="At the limit of the instance type: jobs wait for data or gradients. Spread them over more nodes.",
        ),
        Look(unit=units.BytesPerSecondSI),
    )


def _network_errors() -> Panel:
    return over_time(
        "Network errors",
        {
            "{{node}} {{device}}": most(
                10,
                f"sum by (node, device) (rate(node_network_receive_errs_total{{{_NO_CARD}}}[$__rate_interval])"
                f" + rate(node_network_transmit_errs_total{{{_NO_CARD}}}[$__rate_interval])) > 0",
            )
        },
        Text(
            asks="Which network interfaces report errors?",
            when_bad="Any steady rate: a bad cable, card or switch, which slows down every job that uses it.",
        ),
        Look(unit=units.PacketsPerSecond),
    )


def _rdma() -> Panel:
    return over_time(
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
            asks="Do jobs that request RDMA use it?",
            when_bad="No traffic while such a job runs: NCCL fell back to TCP; see its log with NCCL_DEBUG=INFO.",
        ),
        Look(unit=units.BytesPerSecondSI),
    )


def _rdma_errors() -> Panel:
    return over_time(
        "RDMA errors",
        {
            "{{node}} {{device}} receive errors": most(
                5,
                "sum by (node, device) (increase(node_infiniband_port_receive_errors_total[$__rate_interval])) > 0",
            ),
            "{{node}} {{device}} link down": most(
                5, "sum by (node, device) (increase(node_infiniband_link_downed_total[$__rate_interval])) > 0"
            ),
        },
        Text(
            asks="Does an RDMA interface or its link fail?",
            when_bad="Repeatedly: cordon the node. A flapping link stops every job that uses it.",
        ),
    )


def _disks_of_nodes() -> Panel:
    return over_time(
        "Disks of nodes",
        {
            "{{node}} {{device}}": most(
                10, "max by (node, device) (rate(node_disk_io_time_seconds_total[$__rate_interval]))"
            )
        },
        Text(
            asks="Which disks are saturated?",
            when_bad="At 100%: everything that reads or writes there waits, including image pulls and etcd. Use faster "
            "disks.",
        ),
        RATIO,
    )


def _out_of_memory_kills() -> Panel:
    return over_time(
        "Out-of-memory kills",
        {"{{node}}": most(10, "sum by (node) (increase(node_vmstat_oom_kill[$__rate_interval])) > 0")},
        Text(
            asks="On which nodes does the kernel kill processes because memory is exhausted?",
            when_bad="The dashboard of the job or service names the container: raise its limit, or fix the leak.",
        ),
    )
