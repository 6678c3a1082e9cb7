"""The rows about GPUs of the cluster's dashboard: are they used, and is one of them ill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Section
from infra.monitoring.dashboards.panels import RATIO, Limits, Look, Text, bars, over_time, rows
from infra.monitoring.dashboards.promql import most

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import GpuThresholds


def use() -> Section:
    """Return what shows who uses them."""
    return Section(
        title="Use of GPUs",
        panels=(
            over_time(
                "GPUs there, allocated, busy",
                {
                    "there": "sum(node:gpus_allocatable:sum)",
                    "allocated": "sum(node:gpus_allocated:sum)",
                    "busy": "sum(gpu:busy:ratio)",
                },
                Text(
                    asks="Do we use what we pay for?",
                    when_bad="Allocated far below there: too little work, or it does not fit. Busy far below "
                    "allocated: the next two panels name who holds GPUs without using them.",
                ),
            ),
            bars(
                "Nodes by free GPUs",
                {
                    "{{free}} free": 'count_values("free", node:gpus_allocatable:sum'
                    " - (node:gpus_allocated:sum or node:gpus_allocatable:sum * 0))"
                },
                Text(
                    asks="Are the free GPUs on whole nodes, or in crumbs that no large job can use?",
                    when_bad="Many nodes with a few free ones: small jobs lie where large ones should; ask for whole "
                    "nodes, or give small jobs a pool of their own.",
                ),
            ),
            rows(
                "GPUs held and idle",
                "gpu:allocated_idle:bool == 1",
                {"node": "node", "gpu": "GPU", "namespace": "namespace", "workload": "workload", "queue": "queue"},
                Text(
                    asks="Who holds GPUs without using them now?",
                    when_bad="Ask the owner; the job's dashboard tells whether it waits for data or hangs.",
                ),
            ),
            over_time(
                "Memory of GPUs in use",
                {"{{node}}": most(10, "max by (node) (gpu:memory_used:ratio)")},
                Text(
                    asks="How full is the fullest GPU of each node? The ten fullest.",
                    when_bad="Near 1: the next larger batch fails with out of memory. Lower it, or shard the model.",
                ),
                RATIO,
            ),
        ),
    )


def health(thresholds: GpuThresholds) -> Section:
    """Return what shows whether one is hot, slow or broken."""
    hot, hot_memory = thresholds.temperature_celsius, thresholds.memory_temperature_celsius
    return Section(
        title="Health of GPUs",
        panels=(
            over_time(
                "Temperature of GPUs",
                {"{{node}} GPU {{gpu}}": most(10, "max by (node, gpu) (DCGM_FI_DEV_GPU_TEMP)")},
                Text(
                    asks="Which GPUs are hottest?",
                    when_bad="One alone: its fan or its place. A whole node: the air around it.",
                ),
                Look(unit=units.Celsius, limits=Limits(doubtful=hot - 5, bad=hot)),
            ),
            over_time(
                "Temperature of GPU memory",
                {"{{node}} GPU {{gpu}}": most(10, "max by (node, gpu) (DCGM_FI_DEV_MEMORY_TEMP)")},
                Text(
                    asks="Which GPUs' memory is hottest?",
                    when_bad="As above; memory that is too hot slows down first and then loses rows.",
                ),
                Look(unit=units.Celsius, limits=Limits(doubtful=hot_memory - 5, bad=hot_memory)),
            ),
            rows(
                "Last Xid of each GPU",
                "max by (node, gpu, namespace, pod) (DCGM_FI_DEV_XID_ERRORS) > 0",
                {"node": "node", "gpu": "GPU", "namespace": "namespace", "pod": "pod", "Value": "Xid"},
                Text(
                    asks="Which GPUs reported an error, and which one last? The code stands until the next one.",
                    when_bad="Codes 13, 31, 43 and 45 are the program's; others the hardware's: the runbooks of the "
                    "Xid alerts name what to do for each.",
                ),
                Look(unit=units.NoUnit),
            ),
            over_time(
                "Clock held down",
                {
                    "{{node}} GPU {{gpu}} {{clock_event}}": most(
                        10, "max by (node, gpu, clock_event) (DCGM_EXP_CLOCK_EVENTS_COUNT) > 0"
                    )
                },
                Text(
                    asks="Which GPUs were slowed down, and why? Events within the exporter's window.",
                    when_bad="Thermal: cool it. Power: the node's or the rack's limit. It makes a rank a straggler.",
                ),
            ),
            over_time(
                "Memory rows lost",
                {
                    "{{node}} GPU {{gpu}} remapped, uncorrectable": most(
                        10, "max by (node, gpu) (DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS) > 0"
                    ),
                    "{{node}} GPU {{gpu}} remapped, correctable": most(
                        10, "max by (node, gpu) (DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS) > 0"
                    ),
                    "{{node}} GPU {{gpu}} remap failed": most(
                        10, "max by (node, gpu) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0"
                    ),
                    "{{node}} GPU {{gpu}} double-bit errors": most(
                        10, "max by (node, gpu) (DCGM_FI_DEV_ECC_DBE_VOL_TOTAL) > 0"
                    ),
                },
                Text(
                    asks="Which GPUs have failing memory?",
                    when_bad="A failed remap: take the node out and have the GPU replaced. Others: reset the GPU when "
                    "its job has ended, and watch whether it comes back.",
                ),
            ),
            over_time(
                "PCIe retries",
                {
                    "{{node}} GPU {{gpu}}": most(
                        10,
                        "max by (node, gpu) (increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[$__rate_interval])) > 0",
                    )
                },
                Text(
                    asks="Which GPUs' links to their host repeat packets?",
                    when_bad="Steadily: a bad slot, riser or card; it slows the GPU down long before it fails.",
                ),
            ),
            over_time(
                "Power of GPUs",
                {"{{node}}": most(10, "sum by (node) (DCGM_FI_DEV_POWER_USAGE)")},
                Text(
                    asks="How much power do the hungriest nodes' GPUs draw?",
                    when_bad="Far below others with the same job: its GPUs wait or are held down.",
                ),
                Look(unit=units.Watt),
            ),
        ),
    )
