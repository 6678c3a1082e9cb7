"""From which value on an alert fires, and for how long the value must hold."""

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
    """When a GPU is ill, hot or wasted."""

    temperature_celsius: Annotated[Count, Field(ge=40, le=110)] = 88
    """Temperature of a GPU from which it is too hot (degrees Celsius); it slows itself down from about 90."""
    memory_temperature_celsius: Annotated[Count, Field(ge=40, le=120)] = 98
    """Temperature of a GPU's memory from which it is too hot (degrees Celsius)."""
    temperature_for_seconds: _Hold = 300
    """How long a GPU must be too hot (seconds)."""
    throttled_for_seconds: _Hold = 600
    """How long heat or lack of power must slow a GPU down (seconds)."""
    xid_keep_seconds: _Hold = 3600
    """How long an Xid alert stays after the code was overwritten by another one (seconds)."""
    idle_busy_ratio: _Ratio = 0.02
    """Share of time below which a GPU that a pod holds counts as idle (0 to 1)."""
    idle_for_seconds: _Seconds = 1800
    """How long a GPU that a pod holds must be idle (seconds)."""
    exporter_missing_for_seconds: _Hold = 900
    """How long a node with GPUs must be without GPU metrics (seconds)."""


class TrainingThresholds(Model):
    """When a training job is in trouble."""

    stalled_seconds: _Seconds = 900
    """Time without a step after which a job counts as stalled; longer than a start, an evaluation, a checkpoint."""
    stalled_for_seconds: _Hold = 60
    """How long it must be so (seconds)."""
    not_finite_window_seconds: Annotated[Count, Field(ge=10, le=_DAY)] = 900
    """How long a loss that was no finite number stays an alert (seconds)."""
    straggler_factor: Annotated[_Number, Field(gt=1, le=100)] = 1.3
    """How many times as long a step takes with a rank as it would if that one were like the median rank."""
    straggler_for_seconds: _Hold = 900
    """How long it must be so (seconds)."""
    checkpoint_age_seconds: _Seconds = 7200
    """Age of a running job's newest checkpoint, or time without any, which is the work that a failure would cost."""
    checkpoint_for_seconds: _Hold = 60
    """How long it must be so (seconds)."""
    failure_window_seconds: Annotated[Count, Field(ge=10, le=_DAY)] = 1800
    """How long a failed job, checkpoint or restart counts (seconds)."""
    restarts: Annotated[Count, Field(ge=1, le=100)] = 3
    """Restarts of a pod within that window from which a job only seems to run."""


class QueueThresholds(Model):
    """When waiting for resources takes too long."""

    pending_seconds: _Seconds = 3600
    """How long pods of a job or service may wait."""
    pending_for_seconds: _Hold = 60
    """How long one of them must have waited too long (seconds)."""
    quota_used_ratio: Annotated[_Number, Field(gt=0, le=1)] = 0.95
    """Used share of a namespace's quota from which it counts as exhausted (0 to 1)."""
    quota_for_seconds: _Hold = 900
    """How long a quota or a queue's limit must keep jobs waiting (seconds)."""


class StorageThresholds(Model):
    """When a volume or a node's disk is full."""

    nearly_full_ratio: _Ratio = 0.85
    """Used share of bytes or inodes from which a volume or file system is nearly full (0 to 1)."""
    nearly_full_for_seconds: _Hold = 600
    """How long it must be so (seconds)."""
    full_ratio: _Ratio = 0.97
    """Used share from which writing is about to fail (0 to 1)."""
    full_for_seconds: _Hold = 60
    """How long it must be so (seconds)."""
    node_disk_free_gib: Annotated[Count, Field(ge=1, le=10_000)] = 5
    """Free space with which a node's disk is not full, whatever share of it that is (GiB)."""

    @model_validator(mode="after")
    def _full_is_fuller(self) -> Self:
        if self.full_ratio <= self.nearly_full_ratio:
            raise ValueError(
                f"full_ratio = {self.full_ratio}: must be above nearly_full_ratio = {self.nearly_full_ratio}, or the"
                " warning comes after the page. Fix: raise full_ratio or lower nearly_full_ratio"
            )
        return self


class ServingThresholds(Model):
    """What users of a model are promised over 30 days, and when the promise is in danger."""

    availability_objective: _Ratio = 0.999
    """Share of requests that must be answered without a fault of the service (0 to 1)."""
    latency_objective: _Ratio = 0.99
    """Share of answers that must come within latency_seconds (0 to 1)."""
    latency_seconds: _Number = 0.5
    """Time within which an answer is fast (seconds); one of the bounds of the server's histogram."""
    burn_for_seconds: _Hold = 60
    """How long the error budget must burn too fast (seconds)."""
    minimum_requests_per_hour: Annotated[Count, Field(ge=1, le=1_000_000)] = 20
    """Requests within an hour below which a share says nothing."""
    unavailable_for_seconds: _Hold = 300
    """How long a service must be without a ready pod (seconds)."""
    load_failure_window_seconds: Annotated[Count, Field(ge=10, le=_DAY)] = 900
    """How long a model version that could not be loaded counts (seconds)."""

    @model_validator(mode="after")
    def _budget_can_burn_fast(self) -> Self:
        for name in ("availability_objective", "latency_objective"):
            objective: float = getattr(self, name)
            if (1 - objective) * FASTEST_BURN >= 1:
                raise ValueError(
                    f"{name} = {objective}: must be above {1 - 1 / FASTEST_BURN:.4f}, or not even a service that fails"
                    f" always uses its error budget {FASTEST_BURN} times too fast. Fix: promise 0.95 or more"
                )
        return self

    @model_validator(mode="after")
    def _histogram_has_that_bound(self) -> Self:
        if self.latency_seconds not in REQUEST_SECONDS_BUCKETS:
            bounds = ", ".join(f"{bound:g}" for bound in REQUEST_SECONDS_BUCKETS)
            raise ValueError(
                f"latency_seconds = {self.latency_seconds}: is no bound of the server's histogram, so nothing is known"
                f" about it. Fix: use one of {bounds}"
            )
        return self


class NodeThresholds(Model):
    """When a node or a part of the platform is ill."""

    not_ready_for_seconds: _Hold = 600
    """How long a node must be not ready (seconds)."""
    pressure_for_seconds: _Hold = 600
    """How long a node must be short of memory, disk or process ids (seconds)."""
    crash_loop_for_seconds: _Hold = 600
    """How long a container of the platform must crash again and again (seconds)."""


class TargetThresholds(Model):
    """When the monitoring itself is blind."""

    down_for_seconds: _Hold = 600
    """How long a target must not answer (seconds)."""
    missing_for_seconds: _Hold = 900
    """How long a kind of target that all rules rest on must be absent (seconds)."""
    failing_for_seconds: _Hold = 600
    """How long Prometheus or Alertmanager must fail at its own work (seconds)."""


class AlertThresholds(Model):
    """From which value on an alert fires; every alert's page under docs/runbooks says what the value means."""

    gpu: GpuThresholds = GpuThresholds()
    """When a GPU is ill, hot or wasted."""
    training: TrainingThresholds = TrainingThresholds()
    """When a training job is in trouble."""
    queues: QueueThresholds = QueueThresholds()
    """When waiting for resources takes too long."""
    storage: StorageThresholds = StorageThresholds()
    """When a volume or a node's disk is full."""
    serving: ServingThresholds = ServingThresholds()
    """What users of a model are promised, and when the promise is in danger."""
    nodes: NodeThresholds = NodeThresholds()
    """When a node or a part of the platform is ill."""
    targets: TargetThresholds = TargetThresholds()
    """When the monitoring itself is blind."""
