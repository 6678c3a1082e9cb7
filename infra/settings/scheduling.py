"""Settings of Volcano and its queues."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from infra.settings.fields import Count, DnsLabel, Model, Quantity


class QueueSettings(Model):
    """One Volcano queue."""

    name: DnsLabel
    """Name of the queue in the cluster; `default` and `root` belong to Volcano."""
    weight: Count = Field(default=1, ge=1, le=65535)
    """Share of the cluster against the other queues when all of them want more than there is."""
    capability: dict[str, Quantity] = Field(default_factory=dict)
    """Hard limit by resource name, such as {cpu: "8", nvidia.com/gpu: "4"}. Default: none."""
    reclaimable: bool = True
    """Whether other queues may take back what this one uses beyond its share."""


class SchedulingSettings(Model):
    """Volcano and its queues."""

    install: bool = True
    """False where the cluster already runs Volcano with `preempt` and `reclaim` in its actions."""
    queues: tuple[QueueSettings, ...] = (QueueSettings(name="training"),)
    """Queues to create; jobs use the first one unless they name another."""

    @model_validator(mode="after")
    def _queues_are_usable(self) -> Self:
        names = [queue.name for queue in self.queues]
        if not names:
            raise ValueError("has no queues. Fix: name at least one under scheduling.queues")
        taken = {"default", "root"} & set(names)
        if taken:
            raise ValueError(f"queue name {taken.pop()!r} belongs to Volcano itself. Fix: choose another name")
        if len(set(names)) != len(names):
            raise ValueError(f"queue names repeat: {', '.join(names)}. Fix: give each queue its own name")
        return self
