"""NVIDIA's exporter of GPU metrics (DCGM) as plain manifests, for GPU nodes without another exporter.

Source: NVIDIA/dcgm-exporter 4.5.3-4.8.2, deployment/ and etc/default-counters.csv.

The exporter learns from the kubelet which pod a sample belongs to, for devices of `nvidia.com/gpu` and
`nvidia.com/mig-…` and of resources that are listed for it (internal/pkg/transformation/kubernetes.go). Shares are
listed where our device plugin offers them. With that alone, a card would be attributed to only one of its pods, so the
exporter is configured to repeat each sample for every pod as well. It could not identify pods of cGPU
(`aliyun.com/gpu-mem`): it would take the kubelet's devices, one per GiB and named `<UUID>-_-<number>`, while the card
that such a pod really gets is chosen by the scheduler and noted on the pod (AliyunContainerService/
gpushare-device-plugin, pkg/gpu/nvidia/nvidia.go and allocate.go, the open predecessor of ACK's).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gpu.nodes import config_map, config_volume, daemon_set, environment, labels, metadata
from infra.gpu.sharing import SHARED_GPU_RESOURCE
from infra.kubernetes.pods import container_security, host_folder, resources
from infra.settings.gpu import Mps, TimeSlicing

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.settings.gpu import ClusterGpuSettings, Sharing

DCGM_EXPORTER = "dcgm-exporter"
DCGM_EXPORTER_PORT = 9400
COLLECT_SECONDS = 30
"""Time between two samples."""
EVENT_WINDOW_SECONDS = 300
"""Window within which DCGM_EXP_XID_ERRORS_COUNT and DCGM_EXP_CLOCK_EVENTS_COUNT count samples."""
_COUNTERS_FILE = "counters.csv"

# DCGM field, Prometheus type, help. What alerts and dashboards use, and no more: each costs a series per GPU.
COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "Time in which any kernel ran (percent)."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Share of time in which the compute engine was busy (0 to 1)."),
    ("DCGM_FI_PROF_SM_ACTIVE", "gauge", "Share of cycles in which a multiprocessor had a warp (0 to 1)."),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Share of cycles in which the tensor cores were busy (0 to 1)."),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Share of cycles in which memory was read or written (0 to 1)."),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "Sent over PCIe (bytes per second)."),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "Received over PCIe (bytes per second)."),
    # The exporter's own list calls it a counter; DCGM computes a rate, thousands of KiB per second
    # (NVIDIA/dcgm-exporter pull request 658).
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "gauge", "NVLink traffic of all lanes (1024000 bytes per second)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Memory in use (MiB)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Memory free (MiB)."),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Memory kept by the driver (MiB)."),
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "Clock of the multiprocessors (MHz)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (W)."),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since boot (mJ)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "Temperature of the GPU (degrees Celsius)."),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Temperature of its memory (degrees Celsius)."),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries."),
    # The code of the last error, which stays until the next one: alerts compare it, they never take its increase.
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Code of the last Xid error."),
    # NVML's nvmlDeviceGpuRecoveryAction_t; drivers that do not know it omit it.
    ("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "gauge", "Recovery that the driver asks for (0 is none)."),
    ("DCGM_EXP_XID_ERRORS_COUNT", "gauge", "Xid errors within the exporter's window by code."),
    ("DCGM_EXP_CLOCK_EVENTS_COUNT", "gauge", "Samples with a slowed clock within the exporter's window by reason."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Double-bit memory errors since the driver was loaded."),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Memory rows remapped after uncorrectable errors."),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Memory rows remapped after correctable errors."),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether a memory row could not be remapped."),
    ("DCGM_FI_DRIVER_VERSION", "label", "Version of the driver."),
)


def counters_csv() -> str:
    """Return the file that lists the fields for the exporter to collect."""
    return "".join(f"{field}, {kind}, {text}\n" for field, kind, text in COUNTERS)


def dcgm_exporter_manifests(image: str, settings: ClusterGpuSettings) -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other."""
    config = {_COUNTERS_FILE: counters_csv()}
    return {
        f"{DCGM_EXPORTER}-config": config_map(DCGM_EXPORTER, config),
        DCGM_EXPORTER: _exporter(image, settings, config),
        f"{DCGM_EXPORTER}-service": {
            "apiVersion": "v1",
            "kind": "Service",
            # Without GPU nodes it has no endpoints, and `up` must not wait for any.
            "metadata": {**metadata(DCGM_EXPORTER), "annotations": {"pulumi.com/skipAwait": "true"}},
            "spec": {
                "selector": labels(DCGM_EXPORTER),
                "ports": [{"name": "metrics", "port": DCGM_EXPORTER_PORT, "targetPort": "metrics"}],
            },
        },
    }


def _variables(sharing: Sharing | None) -> dict[str, str]:
    variables = {
        # Without the pods' names a metric belongs to a card, not to a job.
        "DCGM_EXPORTER_KUBERNETES": "true",
        "DCGM_EXPORTER_LISTEN": f":{DCGM_EXPORTER_PORT}",
        "DCGM_EXPORTER_INTERVAL": str(COLLECT_SECONDS * 1000),
        "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE": str(EVENT_WINDOW_SECONDS * 1000),
        "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE": str(EVENT_WINDOW_SECONDS * 1000),
    }
    if isinstance(sharing, TimeSlicing | Mps):
        variables |= {"NVIDIA_RESOURCE_NAMES": SHARED_GPU_RESOURCE, "KUBERNETES_VIRTUAL_GPUS": "true"}
    return variables


def _exporter(image: str, settings: ClusterGpuSettings, config: dict[str, str]) -> Manifest:
    health = {"httpGet": {"path": "/health", "port": "metrics"}, "initialDelaySeconds": 45}
    node_name = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    container = {
        "name": DCGM_EXPORTER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-f", f"/etc/athanor/{_COUNTERS_FILE}"],
        "env": [node_name, *environment(_variables(settings.sharing))],
        "ports": [{"name": "metrics", "containerPort": DCGM_EXPORTER_PORT}],
        "livenessProbe": {**health, "periodSeconds": 5},
        "readinessProbe": health,
        "resources": resources("100m", "128Mi", "512Mi"),
        "securityContext": {
            "runAsNonRoot": False,
            "runAsUser": 0,
            # The profiling counters (DCGM_FI_PROF_*) are readable only with it.
            **container_security(added_capabilities=["SYS_ADMIN"], writable_root=True),
        },
        "volumeMounts": [
            {"name": "pod-resources", "mountPath": "/var/lib/kubelet/pod-resources", "readOnly": True},
            {"name": "config", "mountPath": "/etc/athanor", "readOnly": True},
        ],
    }
    volumes = [host_folder("pod-resources", "/var/lib/kubelet/pod-resources"), config_volume(DCGM_EXPORTER)]
    own = {"containers": [container], "volumes": volumes}
    return daemon_set(DCGM_EXPORTER, own, config=config, runtime_class=settings.runtime_class)
