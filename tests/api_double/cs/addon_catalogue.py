"""The add-ons that the double's ACK knows. Source: ACK documentation, "Components", and the Terraform examples."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class KnownAddon:
    """One add-on of the marketplace."""

    name: str
    category: str
    default_version: str = "v1.0.0"
    """What is installed where the caller names no version: a stand-in."""
    by_default: bool = False
    """Whether ACK puts it into every new cluster that does not disable it."""
    required: bool = False
    """Whether it can never be removed."""
    birth_only: bool = False
    """Whether it can only be had from the cluster's birth on."""
    managed: bool = False
    """Whether it runs with the control plane and not on the cluster's nodes."""
    needs: tuple[str, ...] = ()
    """Add-ons that must be there before."""

    @property
    def stays(self) -> bool:
        """Whether a cluster that has it cannot be without it again."""
        return self.required or self.birth_only


TERWAY = "terway-eniip"
NETWORK_ADDONS = (TERWAY, "flannel")
_ALL = (
    KnownAddon(name=TERWAY, category="network", birth_only=True),
    KnownAddon(name="terway-controlplane", category="network", birth_only=True, managed=True),
    KnownAddon(name="flannel", category="network", birth_only=True),
    KnownAddon(name="cloud-controller-manager", category="core", by_default=True, required=True),
    KnownAddon(name="kube-proxy", category="core", by_default=True, required=True),
    KnownAddon(name="coredns", category="core", by_default=True),
    KnownAddon(name="metrics-server", category="core", by_default=True),
    KnownAddon(name="csi-plugin", category="storage", by_default=True),
    KnownAddon(name="managed-csiprovisioner", category="storage", by_default=True, managed=True),
    KnownAddon(name="ack-nvidia-device-plugin", category="gpu", by_default=True),
    KnownAddon(name="nginx-ingress-controller", category="ingress", by_default=True),
    KnownAddon(name="ack-erdma-controller", category="network", needs=(TERWAY,)),
    KnownAddon(name="ack-rdma-device-plugin", category="network"),
    *(KnownAddon(name=name, category="core") for name in ("managed-coredns", "ack-node-local-dns")),
    *(KnownAddon(name=name, category="storage") for name in ("csi-provisioner", "storage-operator")),
    *(KnownAddon(name=name, category="ai") for name in ("ack-ai-installer", "ack-kube-queue", "ack-arena")),
    *(KnownAddon(name=name, category="autoscaling", managed=True) for name in ("cluster-autoscaler", "goatscaler")),
    *(KnownAddon(name=name, category="log") for name in ("loongcollector", "logtail-ds")),
    *(KnownAddon(name=name, category="monitor") for name in ("arms-prometheus", "ack-node-problem-detector")),
    KnownAddon(name="ack-pod-identity-webhook", category="security"),
    KnownAddon(name="managed-aliyun-acr-credential-helper", category="security", managed=True),
    KnownAddon(name="alb-ingress-controller", category="ingress", managed=True),
)
ADDONS = {addon.name: addon for addon in _ALL}
