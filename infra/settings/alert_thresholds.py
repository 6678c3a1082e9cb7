"""Thresholds at which alerts fire, and how long a value must persist."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from infra.settings.fields import Count, Model

FASTEST_BURN = 14.4
"""Multiple of the error budget's even use that pages (Google, The Site Reliability Workbook, chapter 5, table 5-8)."""
REQUEST_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the server's histogram of request times (seconds): only these can be told apart."""

_DAY = 86400
_Number = Annotated[float, Field(strict=True)]
_Ratio = Annotated[_Number, Field(gt=0, lt=1)]
_Hold = Annotated[Count, Field(ge=0, le=_DAY)]
_Seconds = Annotated[Count, Field(ge=1, le=7 * _DAY)]


class GpuThresholds(Model):
    """When a GPU is faulty, hot or wasted."""

    temperature_celsius: Annotated[Count, Field(ge=40, le=110)] = 88
    """Temperature from which a GPU counts as too hot (degrees Celsius); it throttles itself from about 90."""
    memory_temperature_celsius: Annotated[Count, Field(ge=40, le=120)] = 98
    """Temperature from which a GPU's memory counts as too hot (degrees Celsius)."""
    temperature_for_seconds: _Hold = 300
    """How long a GPU must be too hot before the alert fires (seconds)."""
    throttled_for_seconds: _Hold = 600
    """How long heat or lack of power must throttle a GPU before the alert fires (seconds)."""
    xid_keep_seconds: _Hold = 3600
    """How long an Xid alert keeps firing after another code has overwritten it (seconds)."""
    idle_busy_ratio: _Ratio = 0.02
    """Share of busy time below which a GPU held by a pod counts as idle (0 to 1)."""
    idle_for_seconds: _Seconds = 1800
    """How long a GPU held by a pod must be idle before the alert fires (seconds)."""
    exporter_missing_for_seconds: _Hold = 900
    """How long a GPU node must be without GPU metrics before the alert fires (seconds)."""


class TrainingThresholds(Model):
    """When a training job is in trouble."""

    stalled_seconds: _Seconds = 900
    """Time without a step after which a job counts as stalled; longer than a start, an evaluation, a checkpoint."""
    stalled_for_seconds: _Hold = 60
    """How long this must last before the alert fires (seconds)."""
    not_finite_window_seconds: Annotated[Count, Field(ge=10, le=_DAY)] = 900
    """How long the alert keeps firing after a loss that was not finite (seconds)."""
    straggler_factor: Annotated[_Number, Field(gt=1, le=100)] = 1.3
    """How many times longer a step takes because of a rank than it would if that rank were like the median."""
    straggler_for_seconds: _Hold = 900
    """How long this must last before the alert fires (seconds)."""
    checkpoint_age_seconds: _Seconds = 7200
    """Age of a running job's latest checkpoint, or time without any: the work that a failure would cost."""
    checkpoint_for_seconds: _Hold = 60
    """How long this must last before the alert fires (seconds)."""
    failure_window_seconds: Annotated[Count, Field(ge=10, le=_DAY)] = 1800
    """How long a failed job, checkpoint or restart counts (seconds)."""
    restarts: Annotated[Count, Field(ge=1, le=100)] = 3
    """Restarts of a pod within that window from which a job counts as crash-looping."""


class QueueThresholds(Model):
    """When waiting for resources takes too long."""

    pending_seconds: _Seconds = 3600
    """How long pods of a job or service may wait (seconds)."""
    pending_for_seconds: _Hold = 60
    """How long one of them must have waited too long (seconds)."""
    overlooked_for_seconds: _Hold = 300
    """How long jobs must be admitted without pods before the alert fires (seconds)."""
    quota_used_ratio: Annotated[_Number, Field(gt=0, le=1)] = 0.95
    """Share of a namespace's quota in use from which the quota counts as exhausted (0 to 1)."""
    quota_for_seconds: _Hold = 900
    """How long a quota or a queue's limit must keep jobs waiting before the alert fires (seconds)."""


class StorageThresholds(Model):
    """When a volume or a node's disk is full."""

    nearly_full_ratio: _Ratio = 0.85
    """Share of bytes or inodes in use from which a volume or file system is nearly full (0 to 1)."""
    nearly_full_for_seconds: _Hold = 600
    """How long this must last before the alert fires (seconds)."""
    full_ratio: _Ratio = 0.97
    """Share in use from which writes are about to fail (0 to 1)."""
    full_for_seconds: _Hold = 60
    """How long this must last before the alert fires (seconds)."""
    node_disk_free_gib: Annotated[Count, Field(ge=1, le=10_000)] = 5
    """Free space with which a node's disk never counts as full, whatever the share in use (GiB)."""

    @model_validator(mode="after")
    def _full_is_fuller(self) -> Self:
        if self.full_ratio <= self.nearly_full_ratio:
            raise ValueError(
                f"full_ratio = {self.full_ratio}: must be above nearly_full_ratio = {self.nearly_full_ratio}, or the"
                " warning would fire after the page. Fix: raise full_ratio or lower nearly_full_ratio"
            )
        return self


class ServingThresholds(Model):
    """The service levels promised to a model's users over 30 days, and when they are at risk."""

    availability_objective: _Ratio = 0.999
    """Share of requests that must be answered without an error of the service (0 to 1)."""
    latency_objective: _Ratio = 0.99
    """Share of responses that must arrive within latency_seconds (0 to 1)."""
    latency_seconds: _Number = 0.5
    """Time within which a response counts as fast (seconds); one of the bucket bounds of the server's histogram."""
    burn_for_seconds: _Hold = 60
    """How long the error budget must burn too fast before the alert fires (seconds)."""
    minimum_requests_per_hour: Annotated[Count, Field(ge=1, le=1_000_000)] = 20
    """Requests per hour below which a share is not meaningful."""
    canceled_ratio: _Ratio = 0.05
    """Share of requests that clients cancel before they are answered (0 to 1)."""
    canceled_for_seconds: _Hold = 600
    """How long this must last before the alert fires (seconds)."""
    unavailable_for_seconds: _Hold = 300
    """How long a service must be without a ready pod before the alert fires (seconds)."""
    gateway_error_ratio: _Ratio = 0.05
    """Share of the requests through the gateway that end with a 5xx status (0 to 1)."""
    gateway_error_for_seconds: _Hold = 300
    """How long this must last before the alert fires (seconds)."""
    load_failure_window_seconds: Annotated[Count, Field(ge=10, le=_DAY)] = 900
    """How long a model version that could not be loaded counts (seconds)."""

    @model_validator(mode="after")
    def _budget_can_burn_fast(self) -> Self:
        for name in ("availability_objective", "latency_objective"):
            objective: float = getattr(self, name)
            if (1 - objective) * FASTEST_BURN >= 1:
                raise ValueError(
                    f"{name} = {objective}: must be above {1 - 1 / FASTEST_BURN:.4f}, or not even a service that"
                    f" always fails would use its error budget {FASTEST_BURN} times too fast. Fix: set 0.95 or more"
                )
        return self

    @model_validator(mode="after")
    def _histogram_has_that_bound(self) -> Self:
        if self.latency_seconds not in REQUEST_SECONDS_BUCKETS:
            bounds = ", ".join(f"{bound:g}" for bound in REQUEST_SECONDS_BUCKETS)
            raise ValueError(
                f"latency_seconds = {self.latency_seconds}: is not a bucket bound of the server's histogram, so it"
                f" cannot be measured. Fix: use one of {bounds}"
            )
        return self


class NodeThresholds(Model):
    """When a node or a component of the platform is unhealthy."""

    not_ready_for_seconds: _Hold = 600
    """How long a node must be not ready before the alert fires (seconds)."""
    pressure_for_seconds: _Hold = 600
    """How long a node must be short of memory, disk or process ids before the alert fires (seconds)."""
    crash_loop_for_seconds: _Hold = 600
    """How long a container of the platform must crash-loop before the alert fires (seconds)."""


class TargetThresholds(Model):
    """When the monitoring itself is blind."""

    down_for_seconds: _Hold = 600
    """How long a target must be unreachable before the alert fires (seconds)."""
    missing_for_seconds: _Hold = 900
    """How long a kind of target that the rules depend on must be absent before the alert fires (seconds)."""
    failing_for_seconds: _Hold = 600
    """How long Prometheus or Alertmanager must fail at its own work before the alert fires (seconds)."""


class AlertThresholds(Model):
    """Thresholds at which alerts fire; each alert's page under docs/runbooks explains the value."""

    gpu: GpuThresholds = GpuThresholds()
    """When a GPU is faulty, hot or wasted."""
    training: TrainingThresholds = TrainingThresholds()
    """When a training job is in trouble."""
    queues: QueueThresholds = QueueThresholds()
    """When waiting for resources takes too long."""
    storage: StorageThresholds = StorageThresholds()
    """When a volume or a node's disk is full."""
    serving: ServingThresholds = ServingThresholds()
    """The service levels promised to a model's users, and when they are at risk."""
    nodes: NodeThresholds = NodeThresholds()
    """When a node or a component of the platform is unhealthy."""
    targets: TargetThresholds = TargetThresholds()
    """When the monitoring itself is blind."""
