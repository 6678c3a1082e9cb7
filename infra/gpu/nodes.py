"""The common part of the components on every GPU node: node selection and configuration."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from infra.kubernetes.controllers import PodTemplate, daemon_set_manifest
from infra.kubernetes.pods import required_nodes
from infra.namespaces import GPU_NAMESPACE
from infra.node_labels import NOT_SIMULATED

if TYPE_CHECKING:
    from infra.manifests import Manifest

NAMESPACE = GPU_NAMESPACE
"""Its Pod Security level is `privileged`: both DaemonSets mount folders of the node, which even `baseline` forbids."""
_GPU_NODES = (
    # Set by NVIDIA's feature discovery where it runs, else by the person who adds the node.
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


def environment(variables: dict[str, str]) -> list[dict[str, str]]:
    """Return a container's variables."""
    return [{"name": name, "value": value} for name, value in variables.items()]


def daemon_set(name: str, own: Manifest, *, config: dict[str, str], runtime_class: str | None) -> Manifest:
    """Return a DaemonSet on all GPU nodes; a changed configuration changes its pods.

    Args:
        name: Of the part.
        own: What the part has of a pod spec: containers and volumes.
        config: The files of its ConfigMap.
        runtime_class: RuntimeClass of its pods, which see the node's GPUs; None for the nodes' default runtime.
    """
    digest = hashlib.sha256(repr(sorted(config.items())).encode()).hexdigest()[:16]
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "priorityClassName": "system-node-critical",
        "affinity": required_nodes(*([expression, NOT_SIMULATED] for expression in _GPU_NODES)),
        # Whatever a pool's own taints keep away, its GPUs must be announced and measured.
        "tolerations": [{"operator": "Exists"}],
        **({"runtimeClassName": runtime_class} if runtime_class else {}),
        **own,
    }
    pods = PodTemplate(
        selector={"app.kubernetes.io/name": name},
        labels=labels(name),
        annotations={"athanor.dev/config": digest},
        spec=pod,
    )
    return daemon_set_manifest(metadata(name), pods)
