"""The cluster handle: whichever way a cluster came to be, the rest of the program sees only this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes as kubernetes

from infra.kubeconfig import minified_kubeconfig
from infra.machine import LOCAL_CONTEXT, local_home

if TYPE_CHECKING:
    from infra.settings.cluster import ClusterSettings

# The provider's default client limits (5 requests/s) make 500 objects slow to preview: measured 9.6 s against 3.3 s.
CLIENT_SETTINGS = kubernetes.KubeClientSettingsArgs(qps=1000, burst=2000)


@dataclass(frozen=True, kw_only=True)
class ExistingClusterArgs:
    """Arguments of ExistingCluster."""

    kubeconfig: Path
    """The kubeconfig file; its content becomes a secret, its path never reaches the state."""
    context: str
    """The context to use. It also identifies the cluster: another context means other objects, so all are replaced."""


class ExistingCluster(pulumi.ComponentResource):
    """A cluster that somebody else made: `make up`'s local one, kind, k3d, or any other with a kubeconfig."""

    provider: kubernetes.Provider
    """Provider for everything that is created in the cluster."""

    def __init__(self, name: str, args: ExistingClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:ExistingCluster", name, None, opts)
        self.provider = kubernetes.Provider(
            "kubernetes",
            kubeconfig=pulumi.Output.secret(minified_kubeconfig(args.kubeconfig, args.context)),
            # Without it a changed kubeconfig (new certificates after a restart) would replace every object.
            cluster_identifier=args.context,
            kube_client_settings=CLIENT_SETTINGS,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


def existing_cluster_args(settings: ClusterSettings) -> ExistingClusterArgs:
    """Return where the stack's cluster is: the one in the settings, else the local one of `make up`."""
    if settings.kubeconfig is None or settings.context is None:
        return ExistingClusterArgs(kubeconfig=local_home() / "kubeconfig", context=LOCAL_CONTEXT)
    return ExistingClusterArgs(kubeconfig=Path(settings.kubeconfig).expanduser(), context=settings.context)
