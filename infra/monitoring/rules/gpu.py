"""GPUs: what they do for whom, and what is wrong with them.

Every metric is in infra/gpu/dcgm_exporter.py; a test says so. `DCGM_FI_DEV_XID_ERRORS` holds the code of the last error
until the next one, for days: its increase says nothing, its value is what counts. Source: NVIDIA, "DCGM Exporter" and
"Field Identifiers" of the DCGM API reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.monitoring.rules.pods import GPU_RESOURCES, of_workload
from infra.monitoring.rules.rule import Alert, Area, Recording
from infra.monitoring.rules.xid import SEVERITIES, codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.monitoring.rules.xid import Action
    from infra.settings.alert_thresholds import GpuThresholds

_GPU = "node, gpu, UUID"
_HELD_GPU = f"{_GPU}, namespace, pod"
_WHERE = "GPU {{ $labels.gpu }} of {{ $labels.node }}"
_SLOWED = "hw_slowdown|hw_thermal|sw_thermal|hw_power_brake"
"""Reasons to slow down that are a fault; `power_cap` is how a busy GPU normally runs."""


def area(limits: GpuThresholds) -> Area:
    """Return the rules of GPUs."""
    return Area(name="gpu", recordings=_recordings(limits), alerts=(*_xid(limits), *_health(limits), *_use(limits)))


def _recordings(limits: GpuThresholds) -> Sequence[Recording]:
    memory = "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE + DCGM_FI_DEV_FB_RESERVED)"
    # Profiling counters are missing on some GPUs and while a profiler runs.
    busy = "DCGM_FI_PROF_GR_ENGINE_ACTIVE or DCGM_FI_DEV_GPU_UTIL / 100"
    return (
        Recording(record="gpu:busy:ratio", expr=_of_gpu(busy)),
        Recording(record="gpu:memory_used:ratio", expr=_of_gpu(memory)),
        Recording(
            record="gpu:allocated_idle:bool", expr=f'gpu:busy:ratio{{pod!=""}} < bool {limits.idle_busy_ratio:g}'
        ),
        Recording(
            record="gpu:xid_last:info",
            expr=f'group by ({_GPU}, xid) (count_values by ({_GPU}) ("xid", DCGM_FI_DEV_XID_ERRORS > 0))',
        ),
        Recording(record="gpu:xid_recent:info", expr=f"group by ({_HELD_GPU}, xid) (DCGM_EXP_XID_ERRORS_COUNT > 0)"),
    )


def _of_gpu(expr: str) -> str:
    """Return an expression by GPU, with the workload of the pod that has it; GPUs that nobody has stay."""
    each = f"max by ({_HELD_GPU}) ({expr})"
    return f"({of_workload(each)}) or on ({_HELD_GPU}) ({each})"


def _xid(limits: GpuThresholds) -> Sequence[Alert]:
    return (
        _hardware(
            "GpuXidRestartNode",
            "restart_node",
            "The GPU is lost until its node starts anew, and jobs that get it fail. Cordon the node, restart it.",
            limits,
        ),
        _hardware(
            "GpuXidResetGpu",
            "reset_gpu",
            "Jobs that get this GPU fail until it is reset. Cordon the node, end its pods, reset the GPU.",
            limits,
        ),
        _hardware(
            "GpuXidResetLater",
            "reset_later",
            "The GPU works on. Reset it when the node is idle, before the next fault hits a job.",
            limits,
        ),
        Alert(
            name="GpuXidOther",
            expr=_seen(f'xid!~"{codes()}"'),
            for_seconds=0,
            severity="ticket",
            summary=f"{_WHERE} reports Xid {{{{ $labels.xid }}}}",
            description="No table here knows this code. Look it up in NVIDIA's catalogue of Xid errors.",
            keep_firing_seconds=limits.xid_keep_seconds,
        ),
        Alert(
            name="GpuXidApplication",
            # What a program did is over with the exporter's window; as the last code it would stand for weeks.
            expr=f'gpu:xid_recent:info{{xid=~"{codes("application")}"}}',
            for_seconds=0,
            severity=SEVERITIES["application"],
            summary=f"Xid {{{{ $labels.xid }}}} on {_WHERE}",
            description="A fault of the program of pod {{ $labels.namespace }}/{{ $labels.pod }}, not of the GPU.",
        ),
    )


def _hardware(name: str, action: Action, description: str, limits: GpuThresholds) -> Alert:
    return Alert(
        name=name,
        expr=_seen(f'xid=~"{codes(action)}"'),
        for_seconds=0,
        severity=SEVERITIES[action],
        summary=f"{_WHERE} reports Xid {{{{ $labels.xid }}}}",
        description=description,
        labels={"action": action},
        # The end of the job that it hit is often an Xid of its own, which then stands in its place.
        keep_firing_seconds=limits.xid_keep_seconds,
    )


def _seen(codes_selected: str) -> str:
    return f"group by ({_GPU}, xid) (gpu:xid_last:info{{{codes_selected}}} or gpu:xid_recent:info{{{codes_selected}}})"


def _health(limits: GpuThresholds) -> Sequence[Alert]:
    return (
        Alert(
            name="GpuDoubleBitError",
            expr=f"max by ({_GPU}) (DCGM_FI_DEV_ECC_DBE_VOL_TOTAL) > 0",
            for_seconds=0,
            severity="ticket",
            summary=f"{_WHERE} had {{{{ $value }}}} double-bit memory errors since its driver was loaded",
            description="A program computed with bad data or was ended. Reset the GPU; replace it if it comes again.",
        ),
        Alert(
            name="GpuRowRemapFailed",
            expr=f"max by ({_GPU}) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0",
            for_seconds=0,
            severity="ticket",
            summary=f"{_WHERE} has no spare memory row left for a broken one",
            description="No reset helps any more: cordon the node and have the GPU replaced.",
        ),
        Alert(
            name="GpuTooHot",
            expr=f"""
                max by ({_GPU}) (DCGM_FI_DEV_GPU_TEMP) > {limits.temperature_celsius}
                or max by ({_GPU}) (DCGM_FI_DEV_MEMORY_TEMP) > {limits.memory_temperature_celsius}""",
            for_seconds=limits.temperature_for_seconds,
            severity="ticket",
            summary=f"{_WHERE} has {{{{ $value }}}} degrees Celsius",
            description="It slows itself down, and with it every rank of its job. Look at fans, dust and the room.",
        ),
        Alert(
            name="GpuThrottled",
            expr=f'max by ({_GPU}, clock_event) (DCGM_EXP_CLOCK_EVENTS_COUNT{{clock_event=~"{_SLOWED}"}}) > 0',
            for_seconds=limits.throttled_for_seconds,
            severity="ticket",
            summary=f"{_WHERE} is slowed down: {{{{ $labels.clock_event }}}}",
            description="Heat or lack of power holds it back, and every rank of its job waits for it.",
        ),
    )


def _use(limits: GpuThresholds) -> Sequence[Alert]:
    real_node = "on (node) group by (node) (kubelet_running_pods)"  # of a simulated one no kubelet is read
    return (
        Alert(
            name="GpuAllocatedIdle",
            expr="gpu:allocated_idle:bool == 1",
            for_seconds=limits.idle_for_seconds,
            severity="ticket",
            summary=f"{_WHERE} is held by {{{{ $labels.namespace }}}}/{{{{ $labels.pod }}}} and idle",
            description="Queue {{ $labels.queue }} pays for it and others wait. Does {{ $labels.workload }} need it?",
        ),
        Alert(
            name="GpuExporterMissing",
            expr=f"""
                group by (node) (kube_node_status_allocatable{{resource=~"{GPU_RESOURCES}"}} > 0)
                and {real_node}
                unless on (node) group by (node) (DCGM_FI_DEV_GPU_TEMP)""",
            for_seconds=limits.exporter_missing_for_seconds,
            severity="ticket",
            summary="Nothing is known of the GPUs of {{ $labels.node }}",
            description="The node offers GPUs and no exporter reports about them: their faults go unseen.",
        ),
    )
