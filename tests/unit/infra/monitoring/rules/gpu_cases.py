"""What GPUs report, and when somebody must know."""

from tests.unit.infra.monitoring.rules.pod_cases import labelled_pod
from tests.unit.infra.monitoring.rules.promtool import AlertCase, RecordingCase, series


def gpu(index=0, node="n1"):
    """Return the labels of a GPU."""
    return {"node": node, "gpu": str(index), "UUID": f"GPU-{node}-{index}"}


def dcgm(field, index=0, node="n1", **more):
    """Return the name of a series of the exporter."""
    labels = {**gpu(index, node), "modelName": "NVIDIA A10", "job": "dcgm-exporter", **more}
    return series(field, labels)


_XID, _COUNT = "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT"
_HELD = {"namespace": "team", "pod": "digits-0"}
_RECOVERY = "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"
_BUSY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_UTIL, _USED, _FREE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
_DIGITS = labelled_pod("digits-0", job="digits", gpus=1)
_OF_DIGITS = {**_HELD, "workload": "digits", "queue": "research"}
_BESIDE = {"namespace": "team", "pod": "other-0"}
_OF_OTHER = {**_BESIDE, "workload": "other", "queue": "research"}
_SHARING = {**_DIGITS, **labelled_pod("other-0", job="other")}


def labels(*parts):
    """Return labels as they are written in PromQL."""
    joined = {name: value for part in parts for name, value in part.items()}
    return "{" + ", ".join(f'{name}="{value}"' for name, value in joined.items()) + "}"


def shared(field, whole, *, of_process=False):
    """Return the series of a field of a GPU that two pods share.

    The exporter repeats the card's value for each pod; of the values by process it knows only that of the card.
    """
    pods = {dcgm(field, **_HELD, vgpu="0"): whole, dcgm(field, **_BESIDE, vgpu="1"): whole}
    return {**dict.fromkeys(pods, "0x100"), dcgm(field): whole} if of_process else pods


def standing_codes(alert, *codes, wrong):
    """Return the case of codes, each of a GPU, that stand until the repair, and of others that another alert has."""
    firing = [{**gpu(index), "xid": str(code)} for index, code in enumerate(codes)]
    standing = {dcgm(_XID, index): f"0x4 {code}x295 0x200" for index, code in enumerate(codes)}
    others = {dcgm(_XID, index, "n2"): f"{code}x500" for index, code in enumerate(wrong)}
    return AlertCase(
        alert=alert,
        says=f"{', '.join(map(str, codes))} stand until the repair, however long ago the error was",
        series={**standing, **others},
        fires={"5m": firing, "240m": firing, "350m": firing},
        quiet=["4m", "365m"],
    )


def harmless_code(code):
    """Return the case of a code that asks for nothing, and that is the last one for long after."""
    firing = {**gpu(), **_HELD, "xid": str(code)}
    return AlertCase(
        alert="GpuXidNoAction",
        says=f"{code} is shown for as long as the exporter counts it",
        series={dcgm(_XID): f"0x4 {code}x100", dcgm(_COUNT, **_HELD, xid=str(code)): "_x5 1x5 stale"},
        fires={"5m": [firing]},
        quiet=["4m", "20m"],
    )


WARM = AlertCase(
    alert="GpuTooHot",
    says="60 degrees are normal",
    series={dcgm("DCGM_FI_DEV_GPU_TEMP"): "60x60", dcgm("DCGM_FI_DEV_MEMORY_TEMP"): "70x60"},
    fires={},
    quiet=["10m", "60m"],
)

CASES = (
    standing_codes("GpuXidRestartNode", 79, 151, wrong=[119]),
    standing_codes(
        "GpuXidResetGpu", 46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158, wrong=[79]
    ),
    standing_codes("GpuXidResetLater", 94, wrong=[63]),
    standing_codes("GpuXidOther", 999, 145, 154, wrong=[45, 92, 63]),
    harmless_code(63),
    harmless_code(92),
    AlertCase(
        alert="GpuXidOther",
        says="154 adds nothing to the recovery that the driver itself is seen to ask for",
        series={dcgm(_XID): "154x100", dcgm(_RECOVERY): "1x100"},
        fires={},
        quiet=["5m", "90m"],
    ),
    AlertCase(
        alert="GpuXidOther",
        says="without an error there is no code: neither 0 nor an absent one fires",
        series={dcgm(_COUNT, xid="0"): "5x60", dcgm(_COUNT, 1): "5x60", dcgm(_XID): "0x60"},
        fires={},
        quiet=["5m", "50m"],
    ),
    AlertCase(
        alert="GpuRecoveryNeeded",
        says="until it is done, on a card whose MIG instances all repeat it",
        series={
            dcgm(_RECOVERY, GPU_I_ID="1", **_HELD): "0x4 1x20 0x20",
            dcgm(_RECOVERY, GPU_I_ID="2"): "0x4 1x20 0x20",
            dcgm(_RECOVERY, 1): "0x45",
        },
        fires={"5m": [gpu()], "25m": [gpu()]},
        quiet=["4m", "26m"],
    ),
    AlertCase(
        alert="GpuXidRestartNode",
        says="the code of the job that it ended stands in its place a minute later",
        series={dcgm(_XID): "0x4 79 45x200"},
        fires={"5m": [{**gpu(), "xid": "79"}], "60m": [{**gpu(), "xid": "79"}]},
        quiet=["4m", "70m"],
    ),
    AlertCase(
        alert="GpuXidResetGpu",
        says="seen by the exporter's count alone",
        series={dcgm(_XID): "45x200", dcgm(_COUNT, **_HELD, xid="48"): "0x4 1x5 0x200"},
        fires={"5m": [{**gpu(), "xid": "48"}]},
        quiet=["4m", "90m"],
    ),
    AlertCase(
        alert="GpuXidApplication",
        says="shown while the exporter counts it, not while it is the last code",
        series={dcgm(_XID): "0x4 13x100", dcgm(_COUNT, **_HELD, xid="13"): "_x5 1x5 stale"},
        fires={"5m": [{**gpu(), **_HELD, "xid": "13"}]},
        quiet=["4m", "20m"],
    ),
    AlertCase(
        alert="GpuDoubleBitError",
        says="from the first error until the driver is loaded again",
        series={
            dcgm("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"): "0x4 1x20 0x20",
            dcgm("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1): "0x45",
        },
        fires={"5m": [gpu()], "25m": [gpu()]},
        quiet=["4m", "30m"],
    ),
    AlertCase(
        alert="GpuRowRemapFailed",
        says="until the GPU was replaced",
        series={
            dcgm("DCGM_FI_DEV_ROW_REMAP_FAILURE"): "0x4 1x20 stale",
            dcgm("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1): "0x45",
        },
        fires={"5m": [gpu()], "25m": [gpu()]},
        quiet=["4m", "30m"],
    ),
    WARM,
    AlertCase(
        alert="GpuTooHot",
        says="for five minutes, the chip or its memory",
        series={
            dcgm("DCGM_FI_DEV_GPU_TEMP"): "60x4 91x20 70x20",
            dcgm("DCGM_FI_DEV_MEMORY_TEMP"): "70x45",
            dcgm("DCGM_FI_DEV_GPU_TEMP", 1): "80x45",
            dcgm("DCGM_FI_DEV_MEMORY_TEMP", 1): "70x4 105x20 70x20",
            dcgm("DCGM_FI_DEV_GPU_TEMP", 2): "60x4 91x3 60x40",
        },
        fires={"10m": [gpu(), gpu(1)], "25m": [gpu(), gpu(1)]},
        quiet=["9m", "26m"],
    ),
    AlertCase(
        alert="GpuThrottled",
        says="by heat for at least half of the time, and not by the cap of its power",
        series={
            dcgm("DCGM_EXP_CLOCK_EVENTS_COUNT", clock_event="hw_thermal"): "0x4 5x20 0x20",
            dcgm("DCGM_EXP_CLOCK_EVENTS_COUNT", 1, clock_event="power_cap"): "9x45",
            dcgm("DCGM_EXP_CLOCK_EVENTS_COUNT", 2, clock_event="sw_thermal"): "1x45",
        },
        fires={"15m": [{**gpu(), "clock_event": "hw_thermal"}], "25m": [{**gpu(), "clock_event": "hw_thermal"}]},
        quiet=["14m", "26m"],
    ),
    AlertCase(
        alert="GpuAllocatedIdle",
        says="held by a pod for half an hour; one that nobody has may be idle",
        series={
            **_DIGITS,
            dcgm(_BUSY, **_HELD): "0.9x4 0x40 0.5x40",
            dcgm(_BUSY, 1): "0x100",
            dcgm(_BUSY, 2, **_HELD): "0.3x100",
        },
        fires={"36m": [{**gpu(), **_OF_DIGITS}], "44m": [{**gpu(), **_OF_DIGITS}]},
        quiet=["30m", "47m"],
    ),
    AlertCase(
        alert="GpuAllocatedIdle",
        says="of the pods of a service none: it waits for requests",
        series={**labelled_pod("digits-0", service="digits", gpus=1), dcgm(_BUSY, **_HELD): "0x100"},
        fires={},
        quiet=["36m", "90m"],
    ),
    AlertCase(
        alert="GpuAllocatedIdle",
        says="a pod that belongs to no workload may hold nothing either",
        series={**labelled_pod("digits-0", gpus=1), dcgm(_BUSY, **_HELD): "0x100"},
        fires={"36m": [{**gpu(), **_HELD}]},
        quiet=["29m"],
    ),
    AlertCase(
        alert="GpuAllocatedIdle",
        says="a shared GPU is idle for both of its pods, or for none",
        series={**_SHARING, **shared(_BUSY, "0.5x40 0x60")},
        fires={"72m": [{**gpu(), **_OF_DIGITS}, {**gpu(), **_OF_OTHER}]},
        quiet=["36m", "69m"],
    ),
    AlertCase(
        alert="GpuAllocatedIdle",
        says="a shared GPU without profiling counters, whose use the exporter cannot tell by pod",
        series={**_SHARING, **shared(_FREE, "300x100"), **shared(_UTIL, "50x100", of_process=True)},
        fires={},
        quiet=["36m", "90m"],
    ),
    AlertCase(
        alert="GpuAllocatedIdle",
        says="one of two MIG instances that a pod has of a card",
        series={
            **_DIGITS,
            dcgm(_BUSY, GPU_I_ID="1", **_HELD): "0.9x100",
            dcgm(_BUSY, GPU_I_ID="2", **_HELD): "0x100",
            dcgm(_BUSY, GPU_I_ID="3"): "0x100",
        },
        fires={"36m": [{**gpu(), "GPU_I_ID": "2", **_OF_DIGITS}]},
        quiet=["29m"],
    ),
    AlertCase(
        alert="GpuExporterMissing",
        says="also where pods get only shares of GPUs; one without a temperature is there",
        series={
            'kube_node_status_allocatable{node="n1", resource="nvidia_com_gpu"}': "0x100",
            'kube_node_status_allocatable{node="n1", resource="nvidia_com_gpu_shared"}': "32x100",
            'kube_node_status_allocatable{node="n2", resource="aliyun_com_gpu_mem"}': "96x100",
            'kube_node_status_allocatable{node="n3", resource="nvidia_com_gpu"}': "1x100",
            **{f'kubelet_running_pods{{node="{node}"}}': "5x100" for node in ("n1", "n2", "n3")},
            dcgm(_FREE, node="n3"): "300x100",
        },
        fires={"16m": [{"node": "n1"}, {"node": "n2"}]},
        quiet=["14m"],
    ),
    AlertCase(
        alert="GpuExporterMissing",
        says="on a real node with GPUs; nobody expects one on a simulated node or without GPUs",
        series={
            'kube_node_status_allocatable{node="n1", resource="nvidia_com_gpu"}': "8x100",
            'kube_node_status_allocatable{node="sim-1", resource="nvidia_com_gpu"}': "8x100",
            'kube_node_status_allocatable{node="cpu-1", resource="nvidia_com_gpu"}': "0x100",
            'kubelet_running_pods{node="n1"}': "5x100",
            'kubelet_running_pods{node="cpu-1"}': "5x100",
            dcgm("DCGM_FI_DEV_GPU_TEMP"): "50x4 stale _x30 50x60",
        },
        fires={"25m": [{"node": "n1"}], "34m": [{"node": "n1"}]},
        quiet=["4m", "19m", "37m"],
    ),
    RecordingCase(
        record="gpu:busy:ratio",
        says="with the pod's workload, from the utilisation where the profiling counter is missing",
        series={
            **_DIGITS,
            dcgm(_BUSY, **_HELD): "0.7x10",
            dcgm(_UTIL, **_HELD): "90x10",
            dcgm(_FREE, **_HELD): "300x10",
            dcgm(_UTIL, 1): "40x10",
            dcgm(_FREE, 1): "300x10",
        },
        at="5m",
        gives={labels(gpu(), _OF_DIGITS): 0.7, labels(gpu(1)): 0.4},
    ),
    RecordingCase(
        record="gpu:busy:ratio",
        says="of a shared GPU for each of its pods",
        series={**_SHARING, **shared(_FREE, "300x10"), **shared(_UTIL, "50x10", of_process=True)},
        at="5m",
        gives={labels(gpu(), _OF_DIGITS): 0.5, labels(gpu(), _OF_OTHER): 0.5},
    ),
    RecordingCase(
        record="gpu:allocated_idle:share",
        says="of an idle GPU half for each of two pods",
        series={**_SHARING, **shared(_BUSY, "0x10")},
        at="5m",
        gives={labels(gpu(), _OF_DIGITS): 0.5, labels(gpu(), _OF_OTHER): 0.5},
    ),
    RecordingCase(
        record="gpu:memory_used:ratio",
        says="of all memory, that which the driver keeps included",
        series={
            dcgm(_USED): "600x10",
            dcgm(_FREE): "300x10",
            dcgm("DCGM_FI_DEV_FB_RESERVED"): "100x10",
        },
        at="5m",
        gives={labels(gpu()): 0.6},
    ),
    RecordingCase(
        record="gpu:memory_used:ratio",
        says="of an old driver, which does not tell what it keeps",
        series={dcgm(_USED): "600x10", dcgm(_FREE): "200x10"},
        at="5m",
        gives={labels(gpu()): 0.75},
    ),
    RecordingCase(
        record="gpu:memory_used:ratio",
        says="of a shared GPU as a whole, for each of its pods",
        series={
            **_SHARING,
            **shared(_USED, "600x10", of_process=True),
            **shared(_FREE, "300x10"),
            **shared("DCGM_FI_DEV_FB_RESERVED", "100x10"),
        },
        at="5m",
        gives={labels(gpu(), _OF_DIGITS): 0.6, labels(gpu(), _OF_OTHER): 0.6},
    ),
    RecordingCase(
        record="gpu:memory_used:ratio",
        says="of each MIG instance",
        series={
            dcgm(_USED, GPU_I_ID="1"): "30x10",
            dcgm(_FREE, GPU_I_ID="1"): "10x10",
            dcgm(_USED, GPU_I_ID="2"): "10x10",
            dcgm(_FREE, GPU_I_ID="2"): "30x10",
        },
        at="5m",
        gives={labels(gpu(), {"GPU_I_ID": "1"}): 0.75, labels(gpu(), {"GPU_I_ID": "2"}): 0.25},
    ),
)
