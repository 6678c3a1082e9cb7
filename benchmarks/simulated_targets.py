"""What a Prometheus would read in a large cluster, without the machines: the texts of its exporters and trainers."""

from __future__ import annotations

import random
import time
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

from prometheus_client import generate_latest

from infra.gpu.dcgm_exporter import COUNTERS
from infra.instance_types import instance_type
from trainer.serve.metrics import ServerMetrics, VersionMetrics
from trainer.training.metrics import StepReport, TrainingMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE_NAME = "ecs.ebmgn8v.48xlarge"
GPUS_PER_NODE = instance_type(TYPE_NAME).gpus
WORKERS_PER_JOB = 10
NAMESPACE = "athanor"
# What a busy GPU shows, and what grows by so much per second; every other counter stands at 0, as without errors.
_BUSY: dict[str, tuple[float, float]] = {
    "DCGM_FI_DEV_GPU_UTIL": (90, 100),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (0.9, 1),
    "DCGM_FI_PROF_SM_ACTIVE": (0.6, 0.9),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (0.3, 0.6),
    "DCGM_FI_PROF_DRAM_ACTIVE": (0.2, 0.6),
    "DCGM_FI_PROF_PCIE_TX_BYTES": (1e8, 1e9),
    "DCGM_FI_PROF_PCIE_RX_BYTES": (1e8, 1e9),
    "DCGM_FI_DEV_FB_USED": (70000, 71000),
    "DCGM_FI_DEV_FB_FREE": (24000, 25000),
    "DCGM_FI_DEV_FB_RESERVED": (700, 700),
    "DCGM_FI_DEV_SM_CLOCK": (1700, 1980),
    "DCGM_FI_DEV_POWER_USAGE": (300, 480),
    "DCGM_FI_DEV_GPU_TEMP": (50, 65),
    "DCGM_FI_DEV_MEMORY_TEMP": (60, 75),
}
_GROWING = {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": 5e4, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 4e5}
# What the exporter computes itself has a label more (NVIDIA/dcgm-exporter, internal/pkg/collector).
_EXTRA_LABELS = {
    "DCGM_EXP_XID_ERRORS_COUNT": {"window_size_in_ms": "300000", "xid": "0"},
    "DCGM_EXP_CLOCK_EVENTS_COUNT": {"window_size_in_ms": "300000", "clock_event": "gpu_idle"},
}
_COUNTS = ("_total", "_count", "_sum", "_bucket")
"""How the names of what only grows end."""
_BEGIN = time.monotonic()
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_REASONS = ("Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")


def node_name(node: int) -> str:
    """Return the name of a simulated node."""
    return f"gpu-{node:04d}"


def job_name(node: int) -> str:
    """Return the name of the training job that has the node's GPUs."""
    return f"train-{node // WORKERS_PER_JOB:03d}"


def pod_name(node: int) -> str:
    """Return the name of the pod that has all GPUs of a node."""
    return f"{job_name(node)}-0a1b2c3d-worker-{node % WORKERS_PER_JOB}"


def _series(name: str, **labels: str) -> str:
    pairs = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{pairs}}} "


def dcgm_text(node: int) -> str:
    """Return what the exporter of a node says now: every counter that we ship, for each of the GPUs."""
    now = time.time()
    lines: list[str] = []
    for name, kind, text in COUNTERS:
        if kind == "label":
            continue
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        low, high = _BUSY.get(name, (0, 0))
        for gpu in range(GPUS_PER_NODE):
            value = now * _GROWING[name] if name in _GROWING else random.uniform(low, high)
            lines.append(f"{_dcgm_series(name, node, gpu)}{value:.6f}")
    return "\n".join([*lines, ""])


@cache
def _dcgm_series(name: str, node: int, gpu: int) -> str:
    return _series(
        name,
        gpu=str(gpu),
        UUID=f"GPU-{UUID(int=node * GPUS_PER_NODE + gpu)}",
        pci_bus_id=f"00000000:{gpu + 16:02X}:00.0",
        device=f"nvidia{gpu}",
        modelName="NVIDIA H20",
        Hostname=node_name(node),
        DCGM_FI_DRIVER_VERSION="580.95.05",
        **_EXTRA_LABELS.get(name, {}),
        container="worker",
        namespace=NAMESPACE,
        pod=pod_name(node),
    )


def rank_text(node: int, local_rank: int) -> str:
    """Return what a rank of the node's pod says: the trainer's own registry after a step, and as many per second."""
    rank = node % WORKERS_PER_JOB * GPUS_PER_NODE + local_rank
    steps = time.monotonic() - _BEGIN
    lines = [f"{series} {value * (steps if grows else 1)}" for series, value, grows in _rank_template()]
    return "\n".join([*lines, ""]).replace("RUN", f"{job_name(node)}-0a1b2c3d").replace("RANK", str(rank))


@cache
def _rank_template() -> tuple[tuple[str, float, bool], ...]:
    """Return each series of a rank, its value, and whether it counts something."""
    metrics = TrainingMetrics(run="RUN", rank=0)
    step = {"step": 1, "epoch": 1, "loss": 0.5, "gradient_norm": 1.0, "learning_rate": 0.1}
    metrics.on_step(StepReport(**step, step_seconds=0.2, data_wait_seconds=0.01, samples=80))
    metrics.on_checkpoint(1.5)
    metrics.on_evaluation({"accuracy": 0.9})
    text = generate_latest(metrics.registry).decode().replace('rank="0"', 'rank="RANK"')
    samples = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return tuple((series, float(value), series.partition("{")[0].endswith(_COUNTS)) for series, _, value in samples)


def serving_text() -> str:
    """Return what a pod of a service says that has one version of one model."""
    metrics = ServerMetrics("digits")
    metrics.add_version(VersionMetrics(model="digits", version=1))
    metrics.responses[200] = 1
    return metrics.render().decode()


def sample_count(text: str) -> int:
    """Return the number of samples in a text."""
    return sum(not line.startswith("#") for line in text.splitlines())


@cache
def objects_text(nodes: int) -> str:
    """Return what kube-state-metrics says of so many nodes, each with one pod of a job that has all of its GPUs.

    Of its metrics those that rules and panels use: Prometheus drops the others.
    """
    lines = [f"{series}{float(value)}" for node in range(nodes) for series, value in (*_of_node(node), *_of_pod(node))]
    return "\n".join([*lines, ""])


def _of_node(node: int) -> Iterator[tuple[str, float]]:
    facts = instance_type(TYPE_NAME)
    name = node_name(node)
    yield _series("kube_node_info", node=name, internal_ip=_address(node), kubelet_version="v1.34.4"), 1
    labels = {"label_athanor_dev_pool": "gpu", "label_node_kubernetes_io_instance_type": TYPE_NAME}
    yield _series("kube_node_labels", node=name, **labels), 1
    yield _series("kube_node_spec_unschedulable", node=name), 0
    yield _series("kube_node_spec_taint", node=name, key="nvidia.com/gpu", value="present", effect="NoSchedule"), 1
    amounts = {
        ("cpu", "core"): facts.vcpus,
        ("memory", "byte"): facts.memory_gib * 2**30,
        ("pods", "integer"): 110,
        ("ephemeral_storage", "byte"): 2**40,
        ("nvidia_com_gpu", "integer"): facts.gpus,
    }
    for kind in ("allocatable", "capacity"):
        for (resource, unit), amount in amounts.items():
            yield _series(f"kube_node_status_{kind}", node=name, resource=resource, unit=unit), amount
    for condition in _CONDITIONS:
        for status in ("true", "false", "unknown"):
            holds = status == ("true" if condition == "Ready" else "false")
            yield _series("kube_node_status_condition", node=name, condition=condition, status=status), holds


def _of_pod(node: int) -> Iterator[tuple[str, float]]:
    pod = {"namespace": NAMESPACE, "pod": pod_name(node), "uid": str(UUID(int=node))}
    placed = {"node": node_name(node), "host_ip": _address(node), "created_by_kind": "Job"}
    yield _series("kube_pod_info", **pod, **placed, created_by_name=job_name(node)), 1
    labels = {
        "label_athanor_dev_job": job_name(node),
        "label_athanor_dev_kind": "pytorch",
        "label_athanor_dev_role": "worker",
        "label_volcano_sh_queue_name": f"team-{node % 5}",
    }
    yield _series("kube_pod_labels", **pod, **labels), 1
    for phase in _PHASES:
        yield _series("kube_pod_status_phase", **pod, phase=phase), phase == "Running"
    for reason in _REASONS:
        yield _series("kube_pod_status_reason", **pod, reason=reason), 0
    for ready in ("true", "false", "unknown"):
        yield _series("kube_pod_status_ready", **pod, condition=ready), ready == "true"
    for name in ("kube_pod_created", "kube_pod_start_time", "kube_pod_status_scheduled_time"):
        yield _series(name, **pod), 1.7e9
    container = {**pod, "container": "worker"}
    yield _series("kube_pod_container_status_restarts_total", **container), 0
    yield _series("kube_pod_container_status_running", **container), 1
    amounts = {("cpu", "core"): 96, ("memory", "byte"): 2**39, ("nvidia_com_gpu", "integer"): GPUS_PER_NODE}
    for kind in ("requests", "limits"):
        for (resource, unit), amount in amounts.items():
            used = {**container, "node": node_name(node), "resource": resource, "unit": unit}
            yield _series(f"kube_pod_container_resource_{kind}", **used), amount


def _address(node: int) -> str:
    return f"10.0.{node // 256}.{node % 256}"
