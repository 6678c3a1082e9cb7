"""The add-ons that the double's ACK knows. Source: ACK documentation, "Components", and the Terraform examples."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class KnownAddon:
    """One add-on of the marketplace."""

    name: str
    category: str
    default_version: str
    """What is installed where the caller names no version."""
    by_default: bool = False
    """Whether ACK installs it into every new cluster and never removes it."""
    managed: bool = False
    """Whether it runs beside the control plane and not on the cluster's nodes."""
    birth_only: bool = False
    """Whether it can only be had from the cluster's birth on."""
    needs: tuple[str, ...] = ()
    """Add-ons that must be there before."""


def _known(category: str, *names: str, version: str = "v1.0.0", managed: bool = False) -> tuple[KnownAddon, ...]:
    return tuple(KnownAddon(name=name, category=category, default_version=version, managed=managed) for name in names)


TERWAY = "terway-eniip"
NETWORK_ADDONS = (TERWAY, "flannel")
_ALL = (
    KnownAddon(name=TERWAY, category="network", default_version="v1.16.3", birth_only=True),
    KnownAddon(
        name="terway-controlplane", category="network", default_version="v1.16.3", managed=True, birth_only=True
    ),
    KnownAddon(name="flannel", category="network", default_version="v0.15.1.23", birth_only=True),
    KnownAddon(name="kube-flannel-ds", category="network", default_version="v0.15.1.23", birth_only=True),
    KnownAddon(name="cloud-controller-manager", category="core", default_version="v2.12.1", by_default=True),
    KnownAddon(name="kube-proxy", category="core", default_version="v1.34.3-aliyun.1", by_default=True),
    KnownAddon(name="ack-nvidia-device-plugin", category="gpu", default_version="v0.17.0", by_default=True),
    KnownAddon(name="ack-rdma-device-plugin", category="network", default_version="v1.1.0"),
    KnownAddon(name="ack-erdma-controller", category="network", default_version="v0.2.11", needs=(TERWAY,)),
    *_known("core", "coredns", "managed-coredns", "metrics-server", "security-inspector", "ack-cluster-agent"),
    *_known("storage", "csi-plugin", "csi-provisioner", "storage-operator", "cnfs-nas-daemon"),
    *_known("storage", "managed-csiprovisioner", managed=True),
    *_known("ai", "ack-ai-installer", "ack-kube-queue", "ack-arena", "ack-fluid", "resource-controller"),
    *_known("security", "managed-aliyun-acr-credential-helper", "managed-security-inspector", managed=True),
    *_known("security", "aliyun-acr-credential-helper", "ack-pod-identity-webhook", "gatekeeper", "policy-template"),
    *_known("monitor", "ack-node-problem-detector", "arms-prometheus", "loongcollector", "logtail-ds"),
    *_known("monitor", "ack-node-local-dns", "node-lifecycle-controller", "ack-node-repairer"),
    *_known("autoscaling", "cluster-autoscaler", managed=True),
    *_known("autoscaling", "ack-goatscaler", "goatscaler", managed=True),
    *_known("ingress", "nginx-ingress-controller", "alb-ingress-controller"),
)
ADDONS = {addon.name: addon for addon in _ALL}
