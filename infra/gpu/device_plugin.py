"""NVIDIA's device plugin as plain manifests, for clusters other than ACK.

The containers' configuration is that of NVIDIA's chart, deployments/helm/nvidia-device-plugin of the release that
infra/versions.py pins; docs/decisions/0007-device-plugin-as-typed-resources.md says what is left out and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from infra.gpu.nodes import config_map, config_volume, daemon_set, environment
from infra.gpu.sharing import device_plugin_config
from infra.kubernetes.pods import container_security, host_folder, resources
from infra.settings.gpu import Mig, Mps

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.settings.gpu import ClusterGpuSettings

DEVICE_PLUGIN = "nvidia-device-plugin"
MPS_DAEMON = "nvidia-mps-control-daemon"
_CONFIG_FILE = "/config/config.yaml"
_MPS_ROOT = "/run/nvidia/mps"
_RESOURCES = resources("50m", "64Mi", "256Mi")
_SEES_ALL_GPUS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


def device_plugin_manifests(image: str, settings: ClusterGpuSettings) -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other.

    Raises:
        RefusalError: the sharing is none of NVIDIA's.
    """
    config = {"config.yaml": yaml.safe_dump(device_plugin_config(settings.sharing), sort_keys=False)}
    manifests = {
        f"{DEVICE_PLUGIN}-config": config_map(DEVICE_PLUGIN, config),
        DEVICE_PLUGIN: _plugin(image, settings, config),
    }
    if isinstance(settings.sharing, Mps):
        manifests[MPS_DAEMON] = _mps_daemon(image, config, settings.runtime_class)
    return manifests


def _volumes() -> list[Manifest]:
    return [
        host_folder("mps-root", _MPS_ROOT, "DirectoryOrCreate"),
        # The control daemon mounts it; without MPS it stays empty.
        host_folder("mps-shm", f"{_MPS_ROOT}/shm", "DirectoryOrCreate"),
        config_volume(DEVICE_PLUGIN),
    ]


def _mounts() -> list[Manifest]:
    return [
        {"name": "mps-shm", "mountPath": "/dev/shm"},  # noqa: S108 - inside the container
        {"name": "mps-root", "mountPath": "/mps"},
        {"name": "config", "mountPath": "/config", "readOnly": True},
    ]


def _plugin(image: str, settings: ClusterGpuSettings, config: dict[str, str]) -> Manifest:
    split = isinstance(settings.sharing, Mig)
    cdi = settings.device_list.startswith("cdi-")
    variables = {
        "MPS_ROOT": _MPS_ROOT,
        "DEVICE_LIST_STRATEGY": settings.device_list,
        # The description of the GPUs that it writes for CDI names the driver's files, which it looks for below there.
        **({"NVIDIA_DRIVER_ROOT": "/"} if cdi else {}),
        "CONFIG_FILE": _CONFIG_FILE,
        # Only with it may the plugin list the MIG instances of GPUs.
        **({"NVIDIA_MIG_MONITOR_DEVICES": "all"} if split else {}),
        **_SEES_ALL_GPUS,
    }
    unprivileged = container_security(writable_root=True)
    needs_admin = split or settings.device_list == "volume-mounts"
    container = {
        "name": DEVICE_PLUGIN,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["nvidia-device-plugin"],
        "env": environment(variables),
        "resources": _RESOURCES,
        "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}} if needs_admin else unprivileged,
        "volumeMounts": [
            {"name": "kubelet-device-plugins", "mountPath": "/var/lib/kubelet/device-plugins"},
            {"name": "cdi", "mountPath": "/var/run/cdi"},
            *([{"name": "driver-root", "mountPath": "/driver-root", "readOnly": True}] if cdi else []),
            *_mounts(),
        ],
    }
    volumes = [
        host_folder("kubelet-device-plugins", "/var/lib/kubelet/device-plugins"),
        host_folder("cdi", "/var/run/cdi", "DirectoryOrCreate"),
        *([host_folder("driver-root", "/")] if cdi else []),
        *_volumes(),
    ]
    own = {"containers": [container], "volumes": volumes}
    return daemon_set(DEVICE_PLUGIN, own, config=config, runtime_class=settings.runtime_class)


def _mps_daemon(image: str, config: dict[str, str], runtime_class: str | None) -> Manifest:
    """Return the daemon through which all pods of a GPU reach it; privileged, as NVIDIA's chart has it."""
    shared = {"image": image, "imagePullPolicy": "IfNotPresent", "resources": _RESOURCES}
    mount = {
        **shared,
        "name": "mount-shm",
        "command": ["mps-control-daemon", "mount-shm"],
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "mps-root", "mountPath": "/mps", "mountPropagation": "Bidirectional"}],
    }
    node_name = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    daemon = {
        **shared,
        "name": MPS_DAEMON,
        "command": ["mps-control-daemon"],
        "env": [node_name, *environment({"CONFIG_FILE": _CONFIG_FILE, **_SEES_ALL_GPUS})],
        "securityContext": {"privileged": True},
        "volumeMounts": _mounts(),
    }
    own = {"initContainers": [mount], "containers": [daemon], "volumes": _volumes()}
    return daemon_set(MPS_DAEMON, own, config=config, runtime_class=runtime_class)
