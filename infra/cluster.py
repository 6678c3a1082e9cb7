"""The cluster handle, which is the same however a cluster was created."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes as kubernetes

from infra.kubeconfig import minified_kubeconfig

if TYPE_CHECKING:
    from infra.cluster_access import ExistingClusterArgs

# The provider's default client limits (5 requests/s) make 500 objects slow to preview: measured 9.6 s against 3.3 s.
# After each CRD it reads the OpenAPI document of the API server, which on a busy machine can need longer than the
# default 32 s to write it again: then an update failed at the next object.
CLIENT_SETTINGS = kubernetes.KubeClientSettingsArgs(qps=1000, burst=2000, timeout=180)


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
