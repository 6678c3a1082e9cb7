"""The cluster and its GPUs: is everything there, is it used, is anything ill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.models import units

from infra.monitoring.dashboards.board import Board, Section
from infra.monitoring.dashboards.panels import RATIO, Limits, Look, Text, bars, number, over_time, rows
from infra.monitoring.dashboards.promql import most, quantile

if TYPE_CHECKING:
    from infra.settings.alert_thresholds import AlertThresholds, GpuThresholds, StorageThresholds

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
            _use(),
            _health(thresholds.gpu),
            _nodes(thresholds.storage),
            _platform(),
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


def _use() -> Section:
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


def _health(thresholds: GpuThresholds) -> Section:
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
        ),
    )


def _platform() -> Section:
    return Section(
        title="The platform itself",
        panels=(
            over_time(
                "Targets that answer",
                {"{{job}}": "avg by (job) (up)"},
                Text(
                    asks="Does Prometheus see everything, or is a panel empty because nobody answers?",
                    when_bad="Below 1: Prometheus's page of targets says which, and with which error.",
                ),
                RATIO,
            ),
            rows(
                "Alerts",
                'max by (alertname, severity, namespace, workload, node) (ALERTS{alertstate="firing"})',
                {
                    "alertname": "alert",
                    "severity": "severity",
                    "namespace": "namespace",
                    "workload": "workload",
                    "node": "node",
                },
                Text(asks="What fires now?", when_bad="The runbook has the alert's name."),
            ),
            over_time(
                "Scheduling time",
                {
                    "half are faster": quantile(0.5, "volcano_e2e_scheduling_latency_milliseconds", matchers=""),
                    "99 of 100 are faster": quantile(0.99, "volcano_e2e_scheduling_latency_milliseconds", matchers=""),
                },
                Text(
                    asks="How long does Volcano take for one round?",
                    when_bad="Seconds: its CPU limit, or a great many waiting pods.",
                ),
                Look(unit=units.Milliseconds),
            ),
            over_time(
                "Requests at the API server",
                {"{{request_kind}}": "sum by (request_kind) (apiserver_current_inflight_requests)"},
                Text(
                    asks="How many requests does the API server work on?",
                    when_bad="Hundreds for minutes: some controller lists everything again and again.",
                ),
            ),
            over_time(
                "Series in Prometheus",
                {"{{pod}}": "prometheus_tsdb_head_series"},
                Text(
                    asks="How many series does Prometheus hold?",
                    when_bad="A sudden rise: a job with a label of endless values; it costs memory.",
                ),
            ),
            over_time(
                "Memory of the platform",
                {"{{job}}": most(10, "sum by (job) (process_resident_memory_bytes)")},
                Text(
                    asks="What do the platform's own parts take?",
                    when_bad="Steady growth ends in a restart: raise its limit, and look at the panel beside it.",
                ),
                Look(unit=units.BytesIEC),
            ),
        ),
    )
