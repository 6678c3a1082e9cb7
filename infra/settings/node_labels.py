"""Settings of node labels and taints, in Kubernetes' own syntax."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from infra.kubernetes import grammar
from infra.kubernetes.grammar import LabelValue
from infra.settings.fields import Model

_SET_BY = {
    "ack.aliyun.com/nvidia-driver-version": "gpu.driver_version",
    "ack.node.gpu.schedule": "gpu.sharing",
    "ack.node.gpu.placement": "gpu.sharing",
    "k8s.aliyun.com/exclusive-mode-eni-type": "eni",
    "terway-config": "rdma",
}
"""Labels that a setting of its own decides."""


_OF_KUBERNETES = ("kubernetes.io", "k8s.io")
_OF_THE_NODE = ("kubelet.kubernetes.io", "node.kubernetes.io")
"""The prefixes of Kubernetes that a kubelet may give its node (its flag --node-labels; admission NodeRestriction). With
any other it does not start; well-known labels such as the zone it sets itself."""
_OF_THE_KUBELET = frozenset({"node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build"})
"""Labels that a kubelet gives its node itself (Kubernetes, "Well-Known Labels, Annotations and Taints")."""
_OF_ACK = ("ack.aliyun.com", "alibabacloud.com/nodepool-id", "aliyun.accelerator/")
"""How keys begin that ACK gives its nodes itself (ACK, "Manage node labels and taints"; "GPU node labels")."""


def _own_label_key(key: str) -> str:
    prefix = key.rpartition("/")[0]
    if _is_below(prefix, _OF_KUBERNETES) and not _is_below(prefix, _OF_THE_NODE):
        raise ValueError(f"begins with {prefix}/, which is reserved for Kubernetes. Fix: use a prefix of your own")
    if key in _OF_THE_KUBELET:
        raise ValueError("is set by the kubelet itself. Fix: use a prefix of your own")
    if key.startswith(_OF_ACK) and key not in _SET_BY:
        raise ValueError("is set by ACK itself. Fix: use a prefix of your own")
    if key in _SET_BY:
        raise ValueError(f"is controlled by another setting. Fix: use {_SET_BY[key]}")
    if key.startswith("athanor.dev/"):
        raise ValueError("begins with athanor.dev/, which is reserved for the platform. Fix: use another prefix")
    return key


def _is_below(prefix: str, domains: tuple[str, ...]) -> bool:
    return prefix.endswith(tuple(f".{domain}" for domain in domains)) or prefix in domains


def _own_taint_key(key: str) -> str:
    prefix = key.rpartition("/")[0]
    if _is_below(prefix, _OF_KUBERNETES):
        raise ValueError(
            f"begins with {prefix}/: such taints say what state a node is in, and Kubernetes sets and removes them."
            " Fix: use a prefix of your own"
        )
    return key


LabelKey = Annotated[grammar.LabelKey, AfterValidator(_own_label_key)]


class TaintSettings(Model):
    """A taint of every node of a pool."""

    key: Annotated[grammar.LabelKey, AfterValidator(_own_taint_key)]
    """Its key."""
    value: LabelValue = ""
    """Its value."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """What it does to pods without a toleration."""
