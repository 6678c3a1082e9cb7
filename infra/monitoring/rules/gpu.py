"""Rules about GPUs: their use by workloads, and faults.

Every metric is in infra/gpu/dcgm_exporter.py; a test says so. `DCGM_FI_DEV_XID_ERRORS` holds the code of the last error
until the next one, for days: its increase says nothing, its value is what counts. Source: NVIDIA, "DCGM Exporter" and
"Field Identifiers" of the DCGM API reference.

What the series of one card can be (NVIDIA/dcgm-exporter 4.5.3-4.8.2, internal/pkg/devicemonitoring and transformation;
NVIDIA/DCGM v4.5.3, dcgmlib/src/DcgmCacheManager.cpp):

- One, with the pod that has the card, or without a pod.
- With MIG one for each instance (`GPU_I_ID`), also of what only the card as a whole has: temperature, power, errors.
- Where pods share it, one for each pod with the same value, but for `DCGM_FI_DEV_GPU_UTIL` and `DCGM_FI_DEV_FB_USED`:
  those are the card's without a pod, and 0 for each pod, because the exporter may not look into the node's processes.

With MIG, DCGM files an Xid under the card, a compute instance or a GPU instance, and the exporter reads the last of
these alone: most are not seen there. What the driver asks for (`DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION`) is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gpu.dcgm_exporter import COLLECT_SECONDS, EVENT_WINDOW_SECONDS
from infra.monitoring.rules.pods import ANY_GPU_RESOURCES, WORKLOAD_INFO, of_workload
from infra.monitoring.rules.rule import Alert, Area, Recording
from infra.monitoring.rules.xid import RECOVERY_CHANGED, SEVERITIES, codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.monitoring.rules.xid import Action
    from infra.settings.alert_thresholds import GpuThresholds

_GPU = "node, gpu, UUID"
_HELD_GPU = f"{_GPU}, namespace, pod"
DEVICE = f"{_GPU}, GPU_I_ID"
"""Labels of what one pod can have: a card, or one of its MIG instances."""
_HELD_DEVICE = f"{DEVICE}, namespace, pod"
_WHERE = "GPU {{ $labels.gpu }} of {{ $labels.node }}"
_SLOWED = "hw_slowdown|hw_thermal|sw_thermal|hw_power_brake"
"""Reasons to slow down that are a fault; `power_cap` is how a busy GPU normally runs."""
_SLOWED_SAMPLES = EVENT_WINDOW_SECONDS // COLLECT_SECONDS // 2
"""Half of the samples in the exporter's window: each sample with a reason counts 1 for as long as the window lasts."""
_IDLE = "gpu:allocated_idle:bool"
IDLE_SHARE = "gpu:allocated_idle:share"
BUSY_DEVICES = f"max by ({DEVICE}) (gpu:busy:ratio)"
"""Utilisation of each GPU, once also where several pods share it."""


def area(limits: GpuThresholds) -> Area:
    """Return the rules of GPUs."""
    return Area(name="gpu", recordings=_recordings(limits), alerts=(*_xid(limits), *_health(limits), *_use(limits)))


def _recordings(limits: GpuThresholds) -> Sequence[Recording]:
    # Of a code 0, or of none, nothing happened: the exporter has such a series for each GPU without an error.
    recent = 'DCGM_EXP_XID_ERRORS_COUNT{xid!~"0?"} > 0'
    return (
        Recording(record="gpu:busy:ratio", expr=_with_workload(_busy())),
        Recording(record="gpu:memory_used:ratio", expr=_with_workload(_for_each_pod(_memory_used()))),
        Recording(record=_IDLE, expr=f'gpu:busy:ratio{{pod!=""}} < bool {limits.idle_busy_ratio:g}'),
        # Pods that share an idle GPU count for a fraction of it each, so that sums count GPUs.
        Recording(record=IDLE_SHARE, expr=f"{_IDLE} / on ({DEVICE}) group_left () count by ({DEVICE}) ({_IDLE})"),
        Recording(
            record="gpu:xid_last:info",
            expr=f'group by ({_GPU}, xid) (count_values by ({_GPU}) ("xid", DCGM_FI_DEV_XID_ERRORS > 0))',
        ),
        Recording(record="gpu:xid_recent:info", expr=f"group by ({_HELD_GPU}, xid) ({recent})"),
    )


def _busy() -> str:
    """Return the share of time in which each GPU computes.

    Profiling counters are missing on some GPUs and while a profiler runs; then it is the time in which any kernel ran.
    """
    profiled = f"max by ({_HELD_DEVICE}) (DCGM_FI_PROF_GR_ENGINE_ACTIVE)"
    coarse = _for_each_pod(f"max by ({DEVICE}) (DCGM_FI_DEV_GPU_UTIL) / 100")
    return f"{profiled} or on ({_HELD_DEVICE}) {coarse}"


def _memory_used() -> str:
    """Return the used share of each GPU's memory; drivers before 510 do not report what they reserve."""
    used, free, reserved = (f"max by ({DEVICE}) (DCGM_FI_DEV_FB_{part})" for part in ("USED", "FREE", "RESERVED"))
    return f"{used} / ({used} + {free} + ({reserved} or {used} * 0))"


def _for_each_pod(expr: str) -> str:
    """Return a value of a GPU for each pod that has it; once, without a pod, if nobody has it."""
    return f"(group by ({_HELD_DEVICE}) (DCGM_FI_DEV_FB_FREE) * on ({DEVICE}) group_left () ({expr}))"


def _with_workload(expr: str) -> str:
    """Return an expression by GPU and pod with the pod's workload; GPUs that nobody has stay."""
    return f"({of_workload(expr)}) or on ({_HELD_DEVICE}) ({expr})"


def _xid(limits: GpuThresholds) -> Sequence[Alert]:
    return (
        _hardware(
            "GpuXidRestartNode",
            "restart_node",
            "The GPU is lost until its node restarts, and jobs that get it fail. Cordon the node and restart it.",
            limits,
        ),
        _hardware(
            "GpuXidResetGpu",
            "reset_gpu",
            "Jobs that get this GPU fail until it is reset. Cordon the node, delete its pods, reset the GPU.",
            limits,
        ),
        _hardware(
            "GpuXidResetLater",
            "reset_later",
            "The GPU still works. Reset it when the node is idle, before another fault hits a job.",
            limits,
        ),
        Alert(
            name="GpuXidOther",
            expr=_other(),
            for_seconds=0,
            severity=SEVERITIES["look_up"],
            summary=f"{_WHERE} reports Xid {{{{ $labels.xid }}}}",
            description="The code alone does not say what to do. Read its message in the node's kernel log.",
            keep_firing_seconds=limits.xid_keep_seconds,
        ),
        _display_only(
            "GpuXidApplication",
            "application",
            "The program failed, not the GPU: it only has to be restarted. It runs in pod",
        ),
        _display_only(
            "GpuXidNoAction",
            "none",
            "No action is needed; it is recorded as part of the GPU's history. The GPU is used by pod",
        ),
    )


def _other() -> str:
    known = codes("restart_node", "reset_gpu", "reset_later", "application", "none")
    unclear = _seen(f'xid!~"{known}|{RECOVERY_CHANGED}"')
    # Where the driver reports what it requests, that is an alert of its own; the code would fire long after the repair.
    advice = f"group by ({_GPU}) (DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION)"
    return f"""{unclear} or ({_seen(f'xid="{RECOVERY_CHANGED}"')} unless on ({_GPU}) {advice})"""


def _display_only(name: str, action: Action, description: str) -> Alert:
    """Return an alert that is only displayed, for the exporter's window: as the last code it would fire for weeks."""
    return Alert(
        name=name,
        expr=f'gpu:xid_recent:info{{xid=~"{codes(action)}"}}',
        for_seconds=0,
        severity=SEVERITIES[action],
        summary=f"Xid {{{{ $labels.xid }}}} on {_WHERE}",
        description=f"{description} {{{{ $labels.namespace }}}}/{{{{ $labels.pod }}}} or one that shares its GPU.",
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
        # The end of the job that it hit is often reported as an Xid of its own, which replaces this one.
        keep_firing_seconds=limits.xid_keep_seconds,
    )


def _seen(codes_selected: str) -> str:
    return f"group by ({_GPU}, xid) (gpu:xid_last:info{{{codes_selected}}} or gpu:xid_recent:info{{{codes_selected}}})"


def _health(limits: GpuThresholds) -> Sequence[Alert]:
    return (
        Alert(
            name="GpuRecoveryNeeded",
            expr=f"max by ({_GPU}) (DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION) > 0",
            for_seconds=0,
            severity="page",
            summary=f"The driver requests recovery action {{{{ $value }}}} for {_WHERE}",
            description="1: reset it. 2: restart the node. 3: stop programs that use several GPUs. 4: stop them, then "
            "reset it. 5: recover the NVLink domain across nodes. 6: reset its PCIe bus. 7: restart the machine.",
        ),
        Alert(
            name="GpuDoubleBitError",
            expr=f"max by ({_GPU}) (DCGM_FI_DEV_ECC_DBE_VOL_TOTAL) > 0",
            for_seconds=0,
            severity="ticket",
            summary=f"{_WHERE} has had {{{{ $value }}}} double-bit memory errors since its driver was loaded",
            description="A program used corrupted data or was killed. Reset the GPU; replace it if the error returns.",
        ),
        Alert(
            name="GpuRowRemapFailed",
            expr=f"max by ({_GPU}) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0",
            for_seconds=0,
            severity="ticket",
            summary=f"{_WHERE} has no spare memory row left to replace a faulty one",
            description="A reset no longer helps: cordon the node and have the GPU replaced.",
        ),
        Alert(
            name="GpuTooHot",
            expr=f"""
                max by ({_GPU}) (DCGM_FI_DEV_GPU_TEMP) > {limits.temperature_celsius}
                or max by ({_GPU}) (DCGM_FI_DEV_MEMORY_TEMP) > {limits.memory_temperature_celsius}""",
            for_seconds=limits.temperature_for_seconds,
            severity="ticket",
            summary=f"{_WHERE} is at {{{{ $value }}}} degrees Celsius",
            description="It throttles, and slows down every rank of its job. Check fans, dust and the room's cooling.",
        ),
        Alert(
            name="GpuThrottled",
            expr=f"""
                max by ({_GPU}, clock_event) (DCGM_EXP_CLOCK_EVENTS_COUNT{{clock_event=~"{_SLOWED}"}})
                >= {_SLOWED_SAMPLES}""",
            for_seconds=limits.throttled_for_seconds,
            severity="ticket",
            summary=f"{_WHERE} is throttled: {{{{ $labels.clock_event }}}}",
            description="Every rank of its job waits for it. Check its cooling and its power supply.",
        ),
    )


def _use(limits: GpuThresholds) -> Sequence[Alert]:
    real_node = "on (node) group by (node) (kubelet_running_pods)"  # a simulated node has no kubelet to scrape
    reported = "DCGM_FI_DEV_FB_FREE or DCGM_FI_DEV_GPU_TEMP"  # a virtual GPU has no temperature
    return (
        Alert(
            name="GpuAllocatedIdle",
            # A service waits for requests, at night for hours: what it holds is decided by its replicas.
            expr=f'{_IDLE} == 1 unless on (namespace, pod) {WORKLOAD_INFO}{{kind="service"}}',
            for_seconds=limits.idle_for_seconds,
            severity="ticket",
            summary=f"{_WHERE} is allocated to {{{{ $labels.namespace }}}}/{{{{ $labels.pod }}}} but idle",
            description="It is paid for, and other jobs may be waiting for it. Ask the pod's owner whether it is "
            "needed.",
        ),
        Alert(
            name="GpuExporterMissing",
            expr=f"""
                group by (node) (kube_node_status_allocatable{{resource=~"{ANY_GPU_RESOURCES}"}} > 0)
                and {real_node}
                unless on (node) group by (node) ({reported})""",
            for_seconds=limits.exporter_missing_for_seconds,
            severity="ticket",
            summary="There are no metrics of the GPUs of {{ $labels.node }}",
            description="The node has GPUs, but no exporter reports on them, so faults go unnoticed. Check its "
            "exporter pod.",
        ),
    )
