"""Settings of Volcano: queues, priorities, and the limits of the workloads' namespace."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from infra.errors import choices
from infra.settings.fields import Amounts, Count, CpuQuantity, DnsLabel, MemoryQuantity, Model, repeated

HIGHEST_PRIORITY = 1_000_000_000
"""Higher ones belong to Kubernetes itself (PriorityClass, API reference)."""
LOWEST_PRIORITY = -10
"""The autoscaler takes pods below it for expendable and adds no node for them (expendable-pods-priority-cutoff)."""


_LIMITS = frozenset({"limits.memory", "limits.ephemeral-storage"})
"""The limits that every container has, by default from `container_defaults`."""
_COUNTABLE = _LIMITS | {
    *("cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage"),
    *("requests.storage", "pods", "configmaps", "secrets", "services", "services.loadbalancers", "services.nodeports"),
    *("persistentvolumeclaims", "replicationcontrollers", "resourcequotas"),
}
"""Names without a slash that a ResourceQuota takes (Kubernetes 1.34, pkg/apis/core/helper, standardQuotaResources)."""
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")


class PriorityClassSettings(Model):
    """The priority of a job relative to others in its queue."""

    name: DnsLabel
    """Name within the stack; its name in the cluster is <namespace>.<name>."""
    value: Count = Field(ge=LOWEST_PRIORITY, le=HIGHEST_PRIORITY)
    """Jobs with a higher value go first; jobs and services without a class have 0."""
    description: str = ""
    """What the class is for."""
    preempts: bool = True
    """Whether its jobs preempt running jobs of a lower value and reclaim what their queue lent to others."""


class QueueSettings(Model):
    """One Volcano queue."""

    name: DnsLabel
    """Name of the queue in the cluster; `default` and `root` belong to Volcano."""
    weight: Count = Field(default=1, ge=1, le=65535)
    """Share of the pools' GPUs (without GPUs: CPU) relative to the other queues; it is reclaimed when lent."""
    deserved: Amounts = Field(default_factory=dict)
    """The same by resource name, if the stack does not create the node pools. Default: by `weight`."""
    guaranteed_percent: Annotated[Count, Field(ge=0, le=100)] | None = None
    """Percentage of the GPUs (without GPUs: CPU) at the pools' minimum that is never lent. Default: none."""
    guarantee: Amounts = Field(default_factory=dict)
    """The same by resource name; instead of `guaranteed_percent`."""
    maximum_percent: Annotated[Count, Field(ge=1, le=100)] | None = None
    """Hard limit: percentage of the GPUs, CPU and memory at the pools' maximum. Default: none."""
    capability: Amounts = Field(default_factory=dict)
    """Hard limit by resource name, such as {cpu: "8", nvidia.com/gpu: "4"}; instead of `maximum_percent`."""
    reclaimable: bool = True
    """Whether other queues may reclaim what this one uses beyond its share."""

    @model_validator(mode="after")
    def _each_limit_is_said_once(self) -> Self:
        for percent, amounts in (("guaranteed_percent", "guarantee"), ("maximum_percent", "capability")):
            if getattr(self, percent) is not None and getattr(self, amounts):
                raise ValueError(
                    f"{percent} = {getattr(self, percent)}, {amounts} = {getattr(self, amounts)}: set the same limit"
                    " twice. Fix: omit one of them"
                )
        return self

    @model_validator(mode="after")
    def _guarantee_is_below_the_limit(self) -> Self:
        guaranteed, most = self.guaranteed_percent, self.maximum_percent
        if guaranteed is not None and most is not None and guaranteed > most:
            raise ValueError(
                f"guaranteed_percent = {guaranteed}: is above maximum_percent = {most}. Fix: lower the first or raise"
                " the second"
            )
        return self


class QuotaSettings(Model):
    """What all pods of the workloads' namespace may ask for together, those that wait included."""

    enabled: bool = True
    """Whether to create ResourceQuotas."""
    percent: Annotated[Count, Field(ge=1, le=10000)] | None = None
    """Percentage of the resources at the pools' maximum. Default: 200 under alicloud, so that as much again may wait;
    else none."""
    resources: Amounts = Field(default_factory=dict)
    """Limits by resource name, such as {nvidia.com/gpu: "16", pods: "500"}; each replaces the limit from `percent`,
    or of 5000 ConfigMaps, Secrets and Services."""

    @field_validator("resources")
    @classmethod
    def _quotas_can_limit_them(cls, amounts: dict[str, str]) -> dict[str, str]:
        for name in amounts:
            if name.startswith("limits.") and name not in _LIMITS:
                raise ValueError(
                    f"{name}: containers have no such limit here, so the quota would refuse every pod. Fix: write"
                    f" {name.removeprefix('limits.')}, which counts requests"
                )
            if "/" not in name and name not in _COUNTABLE and not name.startswith(_HUGE_PAGES):
                raise ValueError(
                    f"{name}: is not a resource that quotas know. Fix:"
                    f" {choices(name, sorted(_COUNTABLE))}, or a name with a slash such as nvidia.com/gpu or"
                    " count/jobs.batch"
                )
        return amounts


class ContainerDefaults(Model):
    """What containers of the workloads' namespace get that ask for nothing."""

    cpu: CpuQuantity = "500m"
    """CPU request; there is no limit."""
    memory: MemoryQuantity = "1Gi"
    """Memory request and limit."""
    ephemeral_storage: MemoryQuantity = "64Gi"
    """Limit on the node's disk: logs and emptyDirs, including the project's own 50Gi of /tmp and 10Gi of /source."""


class SchedulingSettings(Model):
    """Volcano, its queues and priorities, and the limits of the workloads' namespace."""

    install: bool = True
    """Set to false if the cluster already runs Volcano with the actions and plugins of
    infra/volcano/configuration.py."""
    queues: tuple[QueueSettings, ...] = (QueueSettings(name="training"),)
    """Queues to create; jobs use the first one unless they name another."""
    priority_classes: tuple[PriorityClassSettings, ...] = (
        PriorityClassSettings(name="low", value=LOWEST_PRIORITY, description="Gives way to everything else."),
        PriorityClassSettings(name="normal", value=0, description="As jobs without a class."),
        PriorityClassSettings(name="high", value=1000, description="Takes from running jobs of the same queue."),
    )
    """PriorityClasses to create. Default: low, normal, high."""
    quota: QuotaSettings = QuotaSettings()
    """What all pods of the workloads' namespace may ask for together."""
    container_defaults: ContainerDefaults = ContainerDefaults()
    """What containers get that ask for nothing."""

    @model_validator(mode="after")
    def _queues_are_usable(self) -> Self:
        names = [queue.name for queue in self.queues]
        if not names:
            raise ValueError("has no queues. Fix: name at least one under scheduling.queues")
        taken = {"default", "root"} & set(names)
        if taken:
            raise ValueError(f"queue name {taken.pop()!r} is reserved by Volcano. Fix: choose another name")
        if len(set(names)) != len(names):
            raise ValueError(f"queue names repeat: {', '.join(names)}. Fix: give each queue its own name")
        return self

    @model_validator(mode="after")
    def _guarantees_can_all_be_kept(self) -> Self:
        shares = {queue.name: queue.guaranteed_percent or 0 for queue in self.queues}
        if sum(shares.values()) > 100:
            listed = ", ".join(f"{name} {share}" for name, share in shares.items())
            raise ValueError(
                f"guaranteed_percent of all queues = {sum(shares.values())}: {listed}; the total must not exceed 100."
                " Fix: lower some of them"
            )
        return self

    @model_validator(mode="after")
    def _shares_are_said_in_one_way(self) -> Self:
        without = [queue.name for queue in self.queues if not queue.deserved]
        if without and len(without) != len(self.queues):
            raise ValueError(
                f"deserved is set for some queues but not for {', '.join(without)}: a share by weight cannot be"
                " compared with an amount. Fix: set `deserved` for every queue, or for none"
            )
        return self

    @model_validator(mode="after")
    def _priority_classes_have_names_of_their_own(self) -> Self:
        names = [priority.name for priority in self.priority_classes]
        twice = repeated(names)
        if twice:
            raise ValueError(f"priority_classes repeats the name {twice[0]!r}. Fix: give each a different name")
        return self
