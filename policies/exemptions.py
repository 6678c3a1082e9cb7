"""Exemptions of the platform's own objects from rules, each with its reason.

A stack's exemptions are in policies/environments; this table is for what athanor itself deploys.
"""

from __future__ import annotations

from typing import Final

_DCGM = "DaemonSet gpu-system/dcgm-exporter"
_NODE_EXPORTER = "DaemonSet monitoring-nodes/node-exporter"
_VLAGENT = "DaemonSet monitoring-nodes/vlagent"
_DEVICE_PLUGIN = "DaemonSet gpu-system/nvidia-device-plugin"
_MPS = "DaemonSet gpu-system/nvidia-mps-control-daemon"

EXEMPTIONS: Final[dict[str, dict[str, str]]] = {
    "no-privileged-containers": {
        _DEVICE_PLUGIN: "creates MIG instances and hands out devices; as in NVIDIA's chart",
        _MPS: "starts the MPS daemon for all pods of a GPU; privileged in NVIDIA's chart",
    },
    "no-root-containers": {
        _DCGM: "DCGM reads profiling counters only as root",
        _VLAGENT: "log files of containers belong to root",
        _DEVICE_PLUGIN: "the kubelet's plugin socket belongs to root",
        _MPS: "the MPS daemon serves pods of every user",
    },
    "no-added-capabilities": {
        _DCGM: "DCGM reads profiling counters with SYS_ADMIN",
        _DEVICE_PLUGIN: "MIG instances are managed with SYS_ADMIN",
        _MPS: "privileged: capabilities say nothing",
    },
    "no-host-namespaces": {_NODE_EXPORTER: "counts the node's own network traffic"},
    "no-host-paths": {
        _DCGM: "asks the kubelet which pod has which GPU",
        _NODE_EXPORTER: "reads /proc, /sys and the file systems of its node",
        _VLAGENT: "reads the log files of its node",
        _DEVICE_PLUGIN: "talks to the kubelet over its socket",
        _MPS: "its clients reach it over a folder of the node",
    },
    "namespace-network-policy": {
        "Namespace gpu-system": "its DaemonSets serve metrics of GPUs and nothing else",
        "Namespace volcano-system": "the scheduler and the controllers serve metrics and nothing else",
    },
    "namespace-pod-security": {
        "Namespace gpu-system": "holds the GPU DaemonSets, which mount folders of their node",
        "Namespace monitoring-nodes": "holds node-exporter and vlagent, which mount folders of their node",
    },
}
"""Reason by object by rule."""
