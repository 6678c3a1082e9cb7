"""Fragments of pod specs: security contexts, resources, host paths, node selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.manifests import Manifest


def pod_security(user: int, *, owns_volumes: bool = True) -> Manifest:
    """Return the security context of a pod that runs as a user other than root.

    Args:
        user: Id of the user and of the group.
        owns_volumes: Whether the group may write to the pod's volumes.
    """
    own: Manifest = {
        "fsGroup": user,
        # Else every start would change the owner of all files of the volume first, which takes minutes on a full one.
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        **(own if owns_volumes else {}),
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security(*, added_capabilities: Sequence[str] = (), writable_root: bool = False) -> Manifest:
    """Return the security context of a container, by default of one that needs no right at all.

    Args:
        added_capabilities: Linux capabilities to add; any breaks Pod Security `restricted`.
        writable_root: Whether it may write to its root file system.
    """
    added = {"add": list(added_capabilities)} if added_capabilities else {}
    return {
        "allowPrivilegeEscalation": False,
        **({} if writable_root else {"readOnlyRootFilesystem": True}),
        "capabilities": {"drop": ["ALL"], **added},
    }


def resources(cpu: str, memory: str, memory_limit: str) -> Manifest:
    """Return a container's resources: what it asks for, and the memory beyond which it is killed."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory_limit}}


def host_folder(name: str, path: str, kind: str = "Directory") -> Manifest:
    """Return a volume that is a folder of the node. `kind`: Directory, or DirectoryOrCreate."""
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def required_nodes(*terms: Sequence[Manifest]) -> Manifest:
    """Return the affinity of pods that run only on nodes that all match expressions of one of the terms select."""
    selected = {"nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selected}}
