"""Settings of what marks a node: labels and taints, in Kubernetes' own syntax."""

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


def _own_label_key(key: str) -> str:
    if key in _SET_BY:
        raise ValueError(f"is controlled by another setting. Fix: use {_SET_BY[key]}")
    if key.startswith("athanor.dev/"):
        raise ValueError("begins with athanor.dev/, which is reserved for the platform. Fix: use another prefix")
    return key


LabelKey = Annotated[grammar.LabelKey, AfterValidator(_own_label_key)]


class TaintSettings(Model):
    """A taint of every node of a pool."""

    key: grammar.LabelKey
    """Its key."""
    value: LabelValue = ""
    """Its value."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """What it does to pods without a toleration."""
