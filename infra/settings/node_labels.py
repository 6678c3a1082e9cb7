"""Settings of what marks a node: labels and taints, in Kubernetes' own syntax."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator

from infra.settings.fields import Model

_NAME = r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY = re.compile(rf"((?=.{{1,253}}/){_DNS_LABEL}(\.{_DNS_LABEL})*/)?{_NAME}")
_VALUE = re.compile(rf"({_NAME})?")
_SET_BY = {
    "ack.aliyun.com/nvidia-driver-version": "gpu.driver_version",
    "ack.node.gpu.schedule": "gpu.sharing",
    "ack.node.gpu.placement": "gpu.sharing",
    "k8s.aliyun.com/exclusive-mode-eni-type": "eni",
    "terway-config": "rdma",
}
"""Labels that a setting of its own decides."""


def _label_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(
            "is no Kubernetes label key. Fix: [prefix/]name, the name at most 63 letters, digits, '-', '_' and '.' with"
            " a letter or digit at both ends, the prefix a DNS subdomain"
        )
    return key


def _own_label_key(key: str) -> str:
    if key in _SET_BY:
        raise ValueError(f"is decided by a setting of its own. Fix: use {_SET_BY[key]}")
    if key.startswith("athanor.dev/"):
        raise ValueError("begins with athanor.dev/, which the platform keeps for itself. Fix: use another prefix")
    return _label_key(key)


def _label_value(value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise ValueError(
            "is no Kubernetes label value. Fix: empty, or at most 63 letters, digits, '-', '_' and '.' with a letter or"
            " digit at both ends"
        )
    return value


LabelKey = Annotated[str, AfterValidator(_own_label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value)]


class TaintSettings(Model):
    """A taint of every node of a pool."""

    key: Annotated[str, AfterValidator(_label_key)]
    """Its key."""
    value: LabelValue = ""
    """Its value."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"
    """What it does to pods without a toleration."""
