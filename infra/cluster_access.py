"""The location of a stack's cluster: the one that its settings name, else the local one of `make up`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.machine import LOCAL_CONTEXT, local_home

if TYPE_CHECKING:
    from infra.settings.cluster import ClusterSettings


@dataclass(frozen=True, kw_only=True)
class ExistingClusterArgs:
    """Arguments of ExistingCluster."""

    kubeconfig: Path
    """The kubeconfig file; its content becomes a secret, its path never reaches the state."""
    context: str
    """The context to use. It also identifies the cluster: another context means other objects, so all are replaced."""


def existing_cluster_args(settings: ClusterSettings) -> ExistingClusterArgs:
    """Return where the stack's cluster is: the one in the settings, else the local one of `make up`."""
    if settings.kubeconfig is None or settings.context is None:
        return ExistingClusterArgs(kubeconfig=local_home() / "kubeconfig", context=LOCAL_CONTEXT)
    return ExistingClusterArgs(kubeconfig=Path(settings.kubeconfig).expanduser(), context=settings.context)
