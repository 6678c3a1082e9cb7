"""What the parts that run on every GPU node share: where they go, how they are configured."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from infra.pools import GPU_TAINT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.manifests import Manifest

NAMESPACE = "gpu-system"
"""Its Pod Security level is `privileged`: both DaemonSets mount folders of the node, which even `baseline` forbids."""
_GPU_NODES = (
    # Set by NVIDIA's feature discovery where it runs, else by whoever adds the node.
    {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]},
    # Set by ACK.
    {"key": "aliyun.accelerator/nvidia_count", "operator": "Exists"},
)


def labels(name: str) -> dict[str, str]:
    """Return the labels of a part."""
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "athanor-gpu"}


def metadata(part: str, suffix: str = "") -> Manifest:
    """Return the metadata of one of a part's objects."""
    return {"name": part + suffix, "namespace": NAMESPACE, "labels": labels(part)}


def config_map(part: str, files: dict[str, str]) -> Manifest:
    """Return the ConfigMap of a part's configuration."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(part, "-config"), "data": files}


def config_volume(part: str) -> Manifest:
    """Return the volume `config` with that ConfigMap."""
    return {"name": "config", "configMap": {"name": f"{part}-config"}}


def host_folder(name: str, path: str, kind: str = "Directory") -> Manifest:
    """Return a volume that is a folder of the node."""
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def environment(variables: dict[str, str]) -> list[dict[str, str]]:
    """Return a container's variables."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def daemon_set(
    name: str,
    containers: Sequence[Manifest],
    volumes: Sequence[Manifest],
    *,
    config: dict[str, str],
    init_containers: Sequence[Manifest] = (),
) -> Manifest:
    """Return a DaemonSet on all GPU nodes; a changed configuration changes its pods."""
    terms = [{"matchExpressions": [expression]} for expression in _GPU_NODES]
    digest = hashlib.sha256(repr(sorted(config.items())).encode()).hexdigest()[:16]
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "priorityClassName": "system-node-critical",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        "tolerations": [GPU_TAINT.toleration()],
        "containers": list(containers),
        "volumes": list(volumes),
        **({"initContainers": list(init_containers)} if init_containers else {}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        # A cluster whose GPU nodes come later has nowhere to run it yet: `up` must not wait for them.
        "metadata": {**metadata(name), "annotations": {"pulumi.com/skipAwait": "true"}},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {
                "metadata": {"labels": labels(name), "annotations": {"athanor.dev/config": digest}},
                "spec": pod,
            },
        },
    }
