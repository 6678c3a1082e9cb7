"""What a rule is tried on: stacks that keep it, stacks that break it, stacks in which that is not known yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from policies.resources import Resource
from policies.values import Unknown, Value

UNKNOWN = Unknown(("somewhere",))


@dataclass(frozen=True, kw_only=True)
class Case:
    """Each stack is one resource, or a list of them."""

    keeps: list[Any]
    breaks: dict[str, Any]
    """By a part of the message."""
    undecided: list[Any]
    config: dict[str, Any] = field(default_factory=dict)


def cloud(token: str, logical: str = "thing", *, protect: bool = False, **properties: Value) -> Resource:
    """A resource of Alibaba Cloud; `cs/nodePool` stands for alicloud:cs/nodePool:NodePool."""
    last = token.rpartition("/")[2]
    kind = f"alicloud:{token}:{last[0].upper()}{last[1:]}"
    return Resource(type=kind, name=logical, protect=protect, properties=dict(properties), urn=f"urn::{logical}")


def manifest(group: str, kind: str, **properties: Any) -> Resource:
    """A Kubernetes object; its name is `thing` unless its metadata have another."""
    content = {"metadata": {"name": "thing", "namespace": "team"}, **properties}
    return Resource(type=f"kubernetes:{group}:{kind}", name="logical", properties=content, urn="urn::logical")


def deployment(container: Any = None, **pod: Any) -> Resource:
    """A Deployment with one container."""
    spec = {"containers": [{"name": "main", **(container or {})}], **pod}
    return manifest("apps/v1", "Deployment", spec={"template": {"spec": spec}})


def volcano_job(**pod: Any) -> Resource:
    """A job whose pods are where no kind of Kubernetes' own has them."""
    spec = {"containers": [{"name": "main"}], **pod}
    return manifest("batch.volcano.sh/v1alpha1", "Job", spec={"tasks": [{"name": "w", "template": {"spec": spec}}]})


def unknown_deployment() -> Resource:
    """A Deployment whose pods depend on something that does not exist yet."""
    return manifest("apps/v1", "Deployment", spec={"template": UNKNOWN})
