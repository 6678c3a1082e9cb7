"""The cluster handle: whichever way a cluster came to be, the rest of the program sees only this."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from infra.errors import RefusalError, choices

if TYPE_CHECKING:
    from infra.settings import ClusterSettings

LOCAL_CLUSTER_NAME = "local"
LOCAL_CONTEXT = f"athanor-{LOCAL_CLUSTER_NAME}"
LOCAL_NODE = f"{LOCAL_CLUSTER_NAME}-node-0"

# The provider's default client limits (5 requests/s) make 500 objects slow to preview: measured 9.6 s against 3.3 s.
_CLIENT = kubernetes.KubeClientSettingsArgs(qps=1000, burst=2000)


def local_home() -> Path:
    """Return the folder of the local cluster that `make up` runs: $ATHANOR_HOME/local, else the XDG state folder's."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get("ATHANOR_HOME") or Path(state) / "athanor") / LOCAL_CLUSTER_NAME


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
            kube_client_settings=_CLIENT,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


def existing_cluster_args(settings: ClusterSettings) -> ExistingClusterArgs:
    """Return where the stack's cluster is: the one in the settings, else the local one of `make up`."""
    if settings.kubeconfig is None or settings.context is None:
        return ExistingClusterArgs(kubeconfig=local_home() / "kubeconfig", context=LOCAL_CONTEXT)
    return ExistingClusterArgs(kubeconfig=Path(settings.kubeconfig).expanduser(), context=settings.context)


def minified_kubeconfig(file: Path, context: str) -> str:
    """Return the kubeconfig reduced to one context, so that no other cluster's credentials enter the state.

    Raises:
        RefusalError: the file is missing, is no kubeconfig, or lacks the context.
    """
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RefusalError(
            "athanor:cluster.kubeconfig",
            str(file),
            f"cannot be read ({error.strerror})",
            "start the local cluster with `make up`, or set cluster.kubeconfig and cluster.context",
        ) from None
    except yaml.YAMLError:
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("contexts"), list):
        raise RefusalError("athanor:cluster.kubeconfig", str(file), "is no kubeconfig", "name a kubeconfig file")
    contexts = {entry["name"]: entry for entry in content["contexts"]}
    if context not in contexts:
        raise RefusalError("athanor:cluster.context", context, f"is not in {file}", choices(context, contexts))
    chosen = contexts[context]
    wanted = {"clusters": chosen["context"]["cluster"], "users": chosen["context"]["user"]}
    reduced = {kind: [entry for entry in content[kind] if entry["name"] == name] for kind, name in wanted.items()}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Config", "current-context": context, "contexts": [chosen], **reduced}
    )
