"""NVIDIA's exporter of GPU metrics (DCGM) as plain manifests, where no other exporter runs on the GPU nodes.

Source: NVIDIA/dcgm-exporter, deployment/ and etc/default-counters.csv.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gpu.nodes import config_map, config_volume, daemon_set, environment, host_folder, labels, metadata

if TYPE_CHECKING:
    from infra.manifests import Manifest

DCGM_EXPORTER = "dcgm-exporter"
METRICS_PORT = 9400
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
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "NVLink traffic of all lanes."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Memory in use (MiB)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Memory free (MiB)."),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Memory kept by the driver (MiB)."),
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "Clock of the multiprocessors (MHz)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (W)."),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since boot (mJ)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "Temperature of the GPU (degrees Celsius)."),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Temperature of its memory (degrees Celsius)."),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "PCIe retries."),
    # The code of the last error, which stands until the next one: alerts compare it, they never take its increase.
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Code of the last Xid error."),
    ("DCGM_EXP_XID_ERRORS_COUNT", "gauge", "Xid errors within the exporter's window by code."),
    ("DCGM_EXP_CLOCK_EVENTS_COUNT", "gauge", "Throttling events within the exporter's window by reason."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Double-bit memory errors since the driver was loaded."),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Memory rows remapped after uncorrectable errors."),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Memory rows remapped after correctable errors."),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether a memory row could not be remapped."),
    ("DCGM_FI_DRIVER_VERSION", "label", "Version of the driver."),
)


def counters_csv() -> str:
    """Return the file that tells the exporter what to collect."""
    return "".join(f"{field}, {kind}, {text}\n" for field, kind, text in COUNTERS)


def dcgm_exporter_manifests(image: str) -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other."""
    config = {_COUNTERS_FILE: counters_csv()}
    return {
        f"{DCGM_EXPORTER}-config": config_map(DCGM_EXPORTER, config),
        DCGM_EXPORTER: _exporter(image, config),
        f"{DCGM_EXPORTER}-service": {
            "apiVersion": "v1",
            "kind": "Service",
            # Without GPU nodes it has no endpoints, and `up` must not wait for any.
            "metadata": {**metadata(DCGM_EXPORTER), "annotations": {"pulumi.com/skipAwait": "true"}},
            "spec": {
                "selector": labels(DCGM_EXPORTER),
                "ports": [{"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"}],
            },
        },
    }


def _exporter(image: str, config: dict[str, str]) -> Manifest:
    health = {"httpGet": {"path": "/health", "port": "metrics"}, "initialDelaySeconds": 45}
    node_name = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    container = {
        "name": DCGM_EXPORTER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-f", f"/etc/athanor/{_COUNTERS_FILE}"],
        # Without the pods' names a metric belongs to a card, not to a job.
        "env": [
            node_name,
            *environment({"DCGM_EXPORTER_KUBERNETES": "true", "DCGM_EXPORTER_LISTEN": f":{METRICS_PORT}"}),
        ],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "livenessProbe": {**health, "periodSeconds": 5},
        "readinessProbe": health,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "runAsNonRoot": False,
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            # The profiling counters (DCGM_FI_PROF_*) are readable only with it.
            "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
        },
        "volumeMounts": [
            {"name": "pod-resources", "mountPath": "/var/lib/kubelet/pod-resources", "readOnly": True},
            {"name": "config", "mountPath": "/etc/athanor", "readOnly": True},
        ],
    }
    volumes = [host_folder("pod-resources", "/var/lib/kubelet/pod-resources"), config_volume(DCGM_EXPORTER)]
    return daemon_set(DCGM_EXPORTER, [container], volumes, config=config)
