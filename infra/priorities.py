"""PriorityClasses: the order of jobs within a queue, and which running ones can be preempted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.settings.scheduling import PriorityClassSettings

FIXED_FIELDS = ("value", "preemptionPolicy")
"""Fields that Kubernetes never changes on an existing PriorityClass (its API reference)."""
_KUBERNETES_OWN = "system-"


def priority_class_name(namespace: str, name: str) -> str:
    """Return the name in the cluster, where all namespaces share one list: `athanor.high`.

    No other namespace and class can make the same one: neither holds a dot.

    Raises:
        RefusalError: Kubernetes keeps such names for itself.
    """
    full = f"{namespace}.{name}"
    if full.startswith(_KUBERNETES_OWN):
        limit = f"names of PriorityClasses in {_KUBERNETES_OWN}… are reserved for Kubernetes, and {full!r} would be one"
        raise RefusalError("athanor:namespace", namespace, limit, f"choose a namespace without {_KUBERNETES_OWN!r}")
    return full


def priority_class_manifest(namespace: str, settings: PriorityClassSettings) -> Manifest:
    """Return a PriorityClass. It is never the default: pods of other teams would get it."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": priority_class_name(namespace, settings.name)},
        "value": settings.value,
        "description": settings.description,
        "globalDefault": False,
        "preemptionPolicy": "PreemptLowerPriority" if settings.preempts else "Never",
    }
