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
_BUSY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_DIGITS = labelled_pod("digits-0", job="digits", gpus=1)
_OF_DIGITS = {**_HELD, "workload": "digits", "queue": "research"}


def standing_code(alert, code, wrong):
    """Return the case of a code that stands until the GPU was repaired, beside one that is not this alert's."""
    firing = {**gpu(), "xid": str(code)}
    return AlertCase(
        alert=alert,
        says="the code stands until the repair, however long ago the error was",
        series={dcgm(_XID): f"0x4 {code}x295 0x200", dcgm(_XID, 1): f"{wrong}x500"},
        fires={"5m": [firing], "240m": [firing], "350m": [firing]},
        quiet=["4m", "365m"],
    )


WARM = AlertCase(
    alert="GpuTooHot",
    says="60 degrees are normal",
    series={dcgm("DCGM_FI_DEV_GPU_TEMP"): "60x60", dcgm("DCGM_FI_DEV_MEMORY_TEMP"): "70x60"},
    fires={},
    quiet=["10m", "60m"],
)

CASES = (
    standing_code("GpuXidRestartNode", 79, wrong=13),
    standing_code("GpuXidResetGpu", 95, wrong=79),
    standing_code("GpuXidResetLater", 63, wrong=48),
    standing_code("GpuXidOther", 999, wrong=45),
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
        says="from the first error until the driver is loaded anew",
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
        says="by heat, and not by the cap of its power",
        series={
            dcgm("DCGM_EXP_CLOCK_EVENTS_COUNT", clock_event="hw_thermal"): "0x4 3x20 0x20",
            dcgm("DCGM_EXP_CLOCK_EVENTS_COUNT", 1, clock_event="power_cap"): "9x45",
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
            dcgm("DCGM_FI_DEV_GPU_UTIL", **_HELD): "90x10",
            dcgm("DCGM_FI_DEV_GPU_UTIL", 1): "40x10",
        },
        at="5m",
        gives={
            '{node="n1", gpu="0", UUID="GPU-n1-0", namespace="team", pod="digits-0", workload="digits",'
            ' queue="research"}': 0.7,
            '{node="n1", gpu="1", UUID="GPU-n1-1"}': 0.4,
        },
    ),
    RecordingCase(
        record="gpu:memory_used:ratio",
        says="of all memory, that which the driver keeps included",
        series={
            dcgm("DCGM_FI_DEV_FB_USED"): "600x10",
            dcgm("DCGM_FI_DEV_FB_FREE"): "300x10",
            dcgm("DCGM_FI_DEV_FB_RESERVED"): "100x10",
        },
        at="5m",
        gives={'{node="n1", gpu="0", UUID="GPU-n1-0"}': 0.6},
    ),
)
