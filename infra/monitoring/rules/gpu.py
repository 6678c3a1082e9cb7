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

Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/xid-errors), the columns "Immediate
Action", "Investigatory Action" and "Trigger Conditions", for data-centre GPUs from Ampere on; read on 22 November 2026.
The catalogue's IGNORE is `none` here, RESTART_APP `application`, RESET_GPU `reset_gpu`, RESTART_BM and RESTART_VM
`restart_node`. Its workflows are reduced to their result for the code alone: 48, 74 and 45 by their trigger conditions.
`reset_later` is its advice for 94 in addition to RESTART_APP: reset the GPU when convenient. Codes that it calls unused
or without an action (162 to 172) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from infra.gpu.dcgm_exporter import COLLECT_SECONDS, EVENT_WINDOW_SECONDS
from infra.monitoring.rules.pods import ANY_GPU_RESOURCES, WORKLOAD_INFO, of_workload
from infra.monitoring.rules.rule import Alert, Area, Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.monitoring.rules.rule import Severity
    from infra.settings.alert_thresholds import GpuThresholds

Action = Literal["restart_node", "reset_gpu", "reset_later", "application", "none", "look_up"]
"""`look_up`: the number does not say it, the text behind it in the node's kernel log does."""


@dataclass(frozen=True, kw_only=True)
class Xid:
    """Codes that mean the same."""

    codes: tuple[int, ...]
    action: Action
    meaning: str


RECOVERY_CHANGED = 154
"""Accompanies another code, and a repair; the driver's advice itself is a metric where the driver reports it."""

XIDS = (
    Xid(codes=(79,), action="restart_node", meaning="the GPU has fallen off the bus"),
    Xid(codes=(151,), action="restart_node", meaning="error in the rotation of an encryption key"),
    Xid(codes=(46,), action="reset_gpu", meaning="the GPU stopped processing"),
    Xid(codes=(48,), action="reset_gpu", meaning="double-bit memory error"),
    Xid(codes=(62,), action="reset_gpu", meaning="an internal microcontroller halted"),
    Xid(codes=(64,), action="reset_gpu", meaning="a memory row could not be remapped"),
    Xid(codes=(74,), action="reset_gpu", meaning="NVLink error"),
    Xid(codes=(95,), action="reset_gpu", meaning="uncontained memory error: every program on the GPU is hit"),
    Xid(codes=(109,), action="reset_gpu", meaning="a switch between programs took too long"),
    Xid(codes=(110,), action="reset_gpu", meaning="security fault, rare without a hardware fault"),
    Xid(codes=(119,), action="reset_gpu", meaning="the GPU's system processor (GSP) does not answer"),
    Xid(codes=(120,), action="reset_gpu", meaning="the GPU's system processor (GSP) failed"),
    Xid(codes=(136,), action="reset_gpu", meaning="training of an NVLink link failed"),
    Xid(codes=(140,), action="reset_gpu", meaning="unrecovered memory error"),
    Xid(codes=(143,), action="reset_gpu", meaning="the GPU could not be initialised"),
    Xid(codes=(155,), action="reset_gpu", meaning="NVLink was taken down by software"),
    Xid(codes=(156,), action="reset_gpu", meaning="a faulty part of the GPU was retired"),
    Xid(codes=(158,), action="reset_gpu", meaning="fatal timeout of the GPU"),
    Xid(codes=(94,), action="reset_later", meaning="contained memory error: one program was hit"),
    Xid(codes=(8,), action="application", meaning="the GPU stopped processing a program's work"),
    Xid(codes=(11, 25, 32, 80), action="application", meaning="a program's command stream is invalid or was corrupted"),
    Xid(codes=(13,), action="application", meaning="exception in a program's kernel"),
    Xid(codes=(31,), action="application", meaning="a program used an address that is not its own"),
    Xid(
        codes=(39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)),
        action="application",
        meaning="error of a copy engine",
    ),
    Xid(codes=(43,), action="application", meaning="a program's channel was stopped"),
    Xid(codes=(45,), action="application", meaning="what a killed program left was cleaned up"),
    Xid(
        codes=(60, 68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139),
        action="application",
        meaning="error of an engine for video, images or optical flow",
    ),
    Xid(codes=(69,), action="application", meaning="a program used an engine wrongly"),
    Xid(codes=(137,), action="application", meaning="a program used an address of another GPU that is not its own"),
    Xid(codes=(14, 106, 107), action="none", meaning="a test message"),
    Xid(codes=(37, 38, 44, 66, 67, 141), action="none", meaning="error inside the driver that needs no recovery"),
    Xid(codes=(63,), action="none", meaning="a memory row was marked for remapping"),
    Xid(codes=(92,), action="none", meaning="many single-bit memory errors, each of them corrected"),
    Xid(codes=(93,), action="none", meaning="the InfoROM's limit of writes is used up"),
    Xid(codes=(108,), action="none", meaning="unused code of NVLink"),
    Xid(codes=(121,), action="none", meaning="corrected errors on the link to the processor"),
    Xid(codes=(160, 161), action="none", meaning="a faulty channel was retired, or could not be"),
    Xid(codes=(54,), action="look_up", meaning="auxiliary power is not connected: check cables and seat"),
    Xid(codes=(78,), action="look_up", meaning="a virtual GPU could not start: update firmware and software"),
    Xid(codes=(142,), action="look_up", meaning="error of a video encoder: contact support"),
    Xid(
        codes=tuple(range(144, 151)),
        action="look_up",
        meaning="NVLink error of Blackwell: its text decides between ignoring it and a reset",
    ),
    Xid(codes=(RECOVERY_CHANGED,), action="look_up", meaning="the recovery that the driver asks for has changed"),
    Xid(codes=(157,), action="look_up", meaning="a faulty part could not be retired: contact support"),
    Xid(codes=(159,), action="look_up", meaning="error on the link to the processor: reset the GPU if it is a vGPU"),
)

SEVERITIES: dict[Action, Severity] = {
    "restart_node": "page",
    "reset_gpu": "page",
    "reset_later": "ticket",
    "application": "info",
    "none": "info",
    "look_up": "ticket",
}


def codes(*actions: Action) -> str:
    """Return the codes of these actions as a regular expression."""
    return "|".join(str(code) for xid in XIDS if xid.action in actions for code in xid.codes)


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
