"""The rows about GPUs of the cluster's dashboard: use and health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import RATIO, Limits, Look, Text, bars, over_time, rows
from infra.monitoring.dashboards.promql import most
from infra.monitoring.rules.gpu import BUSY_DEVICES

if TYPE_CHECKING:
    from infra.monitoring.dashboards.panels import Panel
    from infra.settings.alert_thresholds import GpuThresholds


def use() -> Section:
    """Return the row about their use."""
    return Section(
        title="Use of GPUs",
        panels=(
            _gpus_total_allocated_busy(),
            _nodes_by_free_gpus(),
            _allocated_but_idle_gpus(),
            _gpu_memory_in_use(),
        ),
    )


def _gpus_total_allocated_busy() -> Panel:
    return over_time(
        "GPUs: total, allocated, busy",
        {
            "total": "sum(node:gpus_allocatable:sum)",
            "allocated": "sum(node:gpus_allocated:sum)",
            "busy": f"sum({BUSY_DEVICES})",
        },
        Text(
            asks="Do we use what we pay for?",
            when_bad="Allocated far below total: there is too little work, or it does not fit. Busy far below"
            " allocated: the table of idle GPUs shows who holds them.",
        ),
    )


def _nodes_by_free_gpus() -> Panel:
    return bars(
        "Nodes by free GPUs",
        {
            "{{free}} free": 'count_values("free", node:gpus_allocatable:sum'
            " - (node:gpus_allocated:sum or node:gpus_allocatable:sum * 0))"
        },
        Text(
            asks="Are the free GPUs on whole nodes, or scattered so that no large job can use them?",
            when_bad="Many nodes with a few free GPUs: small jobs fragment the pool. Request whole nodes, or give "
            "small jobs a pool of their own.",
        ),
    )


def _allocated_but_idle_gpus() -> Panel:
    return rows(
        "Allocated but idle GPUs",
        "gpu:allocated_idle:bool == 1",
        {"node": "node", "gpu": "GPU", "namespace": "namespace", "workload": "workload", "queue": "queue"},
        Text(
            asks="Which pods hold GPUs without using them now? Includes services that wait for requests.",
            when_bad="Ask the owner. The job's dashboard shows whether it waits for data or hangs.",
        ),
    )


def _gpu_memory_in_use() -> Panel:
    return over_time(
        "GPU memory in use",
        {"{{node}}": most(10, "max by (node) (gpu:memory_used:ratio)")},
        Text(
            asks="How full is the memory of each node's fullest GPU? Shows the ten fullest.",
            when_bad="Near 100%: a larger batch runs out of memory. Reduce the batch size, or shard the model.",
        ),
        RATIO,
    )


def health(thresholds: GpuThresholds) -> Section:
    """Return the row about their health: heat, throttling and faults."""
    hot, hot_memory = thresholds.temperature_celsius, thresholds.memory_temperature_celsius
    return Section(
        title="Health of GPUs",
        panels=(
            _temperature_of_gpus(hot),
            _temperature_of_gpu_memory(hot_memory),
            _last_xid_of_each_gpu(),
            _throttled_clocks(),
            _failing_memory_rows(),
            _pcie_replays(),
            _power_of_gpus(),
        ),
    )


def _temperature_of_gpus(hot: int) -> Panel:
    return over_time(
        "Temperature of GPUs",
        {"{{node}} GPU {{gpu}}": most(10, "max by (node, gpu) (DCGM_FI_DEV_GPU_TEMP)")},
        Text(
            asks="Which GPUs are the hottest?",
            when_bad="A single GPU: check its fan and its slot. A whole node: check the airflow around it.",
        ),
        Look(unit=units.Celsius, limits=Limits(doubtful=hot - 5, bad=hot)),
    )


def _temperature_of_gpu_memory(hot_memory: int) -> Panel:
    return over_time(
        "Temperature of GPU memory",
        {"{{node}} GPU {{gpu}}": most(10, "max by (node, gpu) (DCGM_FI_DEV_MEMORY_TEMP)")},
        Text(
            asks="Which GPUs have the hottest memory?",
            when_bad="As for GPUs. Overheated memory first throttles, then loses rows.",
        ),
        Look(unit=units.Celsius, limits=Limits(doubtful=hot_memory - 5, bad=hot_memory)),
    )


def _last_xid_of_each_gpu() -> Panel:
    return rows(
        "Last Xid of each GPU",
        "max by (node, gpu, namespace, pod) (DCGM_FI_DEV_XID_ERRORS) > 0",
        {"node": "node", "gpu": "GPU", "namespace": "namespace", "pod": "pod", "Value": "Xid"},
        Text(
            asks="Which GPUs reported an error, and what was the last one? A code remains until the next error.",
            when_bad="Codes such as 13, 31, 43 and 45 are application errors; 63 and 92 need no action. The runbooks "
            "of the Xid alerts list what to do for each code.",
        ),
        Look(unit=units.NoUnit),
    )


def _throttled_clocks() -> Panel:
    return over_time(
        "Throttled clocks",
        {
            "{{node}} GPU {{gpu}} {{clock_event}}": most(
                10, "max by (node, gpu, clock_event) (DCGM_EXP_CLOCK_EVENTS_COUNT) > 0"
            )
        },
        Text(
            asks="Which GPUs were throttled, and why? Counts events within the exporter's window.",
            when_bad="Thermal: improve the cooling. Power: a limit of the node or the rack. A throttled GPU makes its "
            "rank a straggler.",
        ),
    )


def _failing_memory_rows() -> Panel:
    return over_time(
        "Failing memory rows",
        {
            "{{node}} GPU {{gpu}} remapped, uncorrectable": most(
                10, "max by (node, gpu) (DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS) > 0"
            ),
            "{{node}} GPU {{gpu}} remapped, correctable": most(
                10, "max by (node, gpu) (DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS) > 0"
            ),
            "{{node}} GPU {{gpu}} remap failed": most(10, "max by (node, gpu) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0"),
            "{{node}} GPU {{gpu}} double-bit errors": most(
                10, "max by (node, gpu) (DCGM_FI_DEV_ECC_DBE_VOL_TOTAL) > 0"
            ),
        },
        Text(
            asks="Which GPUs have failing memory?",
            when_bad="Remap failed: cordon the node and have the GPU replaced. Otherwise: reset the GPU when its job"
            " has ended, and watch whether the error returns.",
        ),
    )


def _pcie_replays() -> Panel:
    return over_time(
        "PCIe replays",
        {
            "{{node}} GPU {{gpu}}": most(
                10,
                "max by (node, gpu) (increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[$__rate_interval])) > 0",
            )
        },
        Text(
            asks="Which GPUs retransmit packets on their PCIe link?",
            when_bad="A steady rate: a bad slot, riser or card, which slows the GPU down long before it fails.",
        ),
    )


def _power_of_gpus() -> Panel:
    return over_time(
        "Power of GPUs",
        {"{{node}}": most(10, "sum by (node) (max by (node, gpu) (DCGM_FI_DEV_POWER_USAGE))")},
        Text(
            asks="Which nodes' GPUs draw the most power?",
            when_bad="Far below other nodes of the same job: its GPUs wait or are throttled.",
        ),
        Look(unit=units.Watt),
    )
