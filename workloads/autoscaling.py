"""Autoscaling of services: the HorizontalPodAutoscaler of a Deployment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from infra.admitted import LARGEST_ROLE
from infra.autoscaling_metrics import LATENCY_METRIC, QUEUE_METRIC, AutoscalingMetric
from infra.descriptions import checked
from infra.errors import RefusalError
from infra.workload_labels import LONGEST_HOLD_SECONDS
from workloads.checks import check_range

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.offers import PlatformOffers

_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_:.-]*")
_AMOUNT = re.compile(r"(?=.*[1-9])([0-9]+m|[0-9]+(\.[0-9]+)?)")
_MAXIMUM_WINDOW_SECONDS = 3600
_MAXIMUM_WAIT_SECONDS = 86_400
_IDLE_SECONDS, _HOLD_SECONDS = 600, 120
_GPU_HOLD_SECONDS = 900
"""A node with a GPU may have to be bought first, and load an image of 16 GB, each of which takes minutes."""
_MAXIMUM_QUEUE = 10_000
_MAXIMUM_LATENCY_MILLISECONDS = 10_000
"""The last bound of the histogram of request times: above it, all are alike."""


@checked("autoscaling.target")
@dataclass(frozen=True, kw_only=True)
class CpuUtilisation:
    """CPU that the pods use, as a share of what they request."""

    needs: ClassVar[AutoscalingMetric | None] = "cpu"
    percent: int = 70
    """Average over the pods to hold."""

    def __post_init__(self) -> None:
        """Refuse what no pod can be held at."""
        check_range("autoscaling.target.percent", self.percent, 1, 100)

    def manifest(self, _service: str) -> Manifest:
        """Return the metric as the autoscaler of a service names it."""
        target = {"type": "Utilization", "averageUtilization": self.percent}
        return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


@checked("autoscaling.target")
@dataclass(frozen=True, kw_only=True)
class QueueDepth:
    """Requests that wait in a pod; on CPUs and on GPUs."""

    needs: ClassVar[AutoscalingMetric | None] = "queue_depth"
    requests: int = 4
    """Average over the pods to hold."""

    def __post_init__(self) -> None:
        """Refuse what no queue can be held at."""
        check_range("autoscaling.target.requests", self.requests, 1, _MAXIMUM_QUEUE)

    def manifest(self, _service: str) -> Manifest:
        """Return the metric as the autoscaler of a service names it."""
        target = {"type": "AverageValue", "averageValue": str(self.requests)}
        return {"type": "Pods", "pods": {"metric": {"name": QUEUE_METRIC}, "target": target}}


@checked("autoscaling.target")
@dataclass(frozen=True, kw_only=True)
class LatencyP99:
    """The 99th percentile of the times from a request's first byte to its answer, over all pods of the service."""

    needs: ClassVar[AutoscalingMetric | None] = "latency"
    milliseconds: int
    """What to hold. Choose more than one request takes alone: no number of pods makes a model faster than that."""

    def __post_init__(self) -> None:
        """Refuse what the histogram of request times cannot tell."""
        check_range("autoscaling.target.milliseconds", self.milliseconds, 1, _MAXIMUM_LATENCY_MILLISECONDS)

    def manifest(self, service: str) -> Manifest:
        """Return the metric as the autoscaler of a service names it."""
        described = {"apiVersion": "v1", "kind": "Service", "name": service}
        target = {"type": "Value", "value": str(self.milliseconds)}
        return {
            "type": "Object",
            "object": {"metric": {"name": LATENCY_METRIC}, "describedObject": described, "target": target},
        }


@checked("autoscaling.target")
@dataclass(frozen=True, kw_only=True)
class PodsMetric:
    """Another number that every pod reports; the cluster must run an adapter that offers it."""

    needs: ClassVar[AutoscalingMetric | None] = None
    name: str
    """Name in the custom metrics API (custom.metrics.k8s.io)."""
    average: str
    """Average over the pods to hold: a number, or thousandths (`4`, `0.5`, `500m`)."""

    def __post_init__(self) -> None:
        """Refuse what the API server would refuse."""
        if not _METRIC.fullmatch(self.name):
            limit = "is not a valid metric name"
            raise RefusalError(
                "autoscaling.target.name", self.name, limit, "write it as the metrics adapter reports it"
            )
        if not _AMOUNT.fullmatch(self.average):
            limit = "is not an amount above 0"
            raise RefusalError("autoscaling.target.average", self.average, limit, "write a number: 4, 0.5, 500m")

    def manifest(self, _service: str) -> Manifest:
        """Return the metric as the autoscaler of a service names it."""
        target = {"type": "AverageValue", "averageValue": self.average}
        return {"type": "Pods", "pods": {"metric": {"name": self.name}, "target": target}}


Target = CpuUtilisation | QueueDepth | LatencyP99 | PodsMetric


@checked("autoscaling")
@dataclass(frozen=True, kw_only=True)
class Autoscaling:
    """As many pods as hold every number at its target."""

    minimum: int = 1
    """Pods without load. With 0, and `expose`, the gateway holds the first request until a pod is ready; inside the
    cluster, too, clients must use the gateway's address then."""
    maximum: int
    """Pods at the highest load. With 1, and minimum=0, nothing is measured: the pod is there or it is not."""
    targets: Sequence[Target] = (CpuUtilisation(),)
    """What to hold; the one that needs the most pods decides. On GPUs QueueDepth(): there the CPU idles under the
    highest load."""
    scale_down_seconds: int = 300
    """Pods go only when fewer were enough for so long: a short pause must not cost warm pods."""
    idle_seconds: int | None = None
    """With minimum=0: the last pod goes after so long without a request. Default: 600."""
    hold_seconds: int | None = None
    """With minimum=0: a request waits so long for the first pod; status 503 after it. Default: 120, on
    GPUs 900: a node may have to be bought first, and load an image of many GB."""

    def __post_init__(self) -> None:
        """Refuse limits that cannot hold."""
        check_range("autoscaling.minimum", self.minimum, 0, LARGEST_ROLE)
        check_range("autoscaling.maximum", self.maximum, 1, LARGEST_ROLE)
        check_range("autoscaling.scale_down_seconds", self.scale_down_seconds, 0, _MAXIMUM_WINDOW_SECONDS)
        _check_zero(self)
        if self.maximum < self.minimum:
            limit = f"must be at least the minimum, {self.minimum}"
            raise RefusalError("autoscaling.maximum", self.maximum, limit, "raise it, or lower the minimum")
        _check_targets(self.targets)

    @property
    def scales_to_zero(self) -> bool:
        """Whether the last pod goes, too."""
        return self.minimum == 0

    @property
    def idle(self) -> int:
        """Seconds without a request after which it does."""
        return _IDLE_SECONDS if self.idle_seconds is None else self.idle_seconds

    def hold(self, *, on_gpus: bool) -> int:
        """Return the seconds that a request waits for the first pod."""
        usual = _GPU_HOLD_SECONDS if on_gpus else _HOLD_SECONDS
        return usual if self.hold_seconds is None else self.hold_seconds

    def leaving_room_for(self, pods: int) -> Autoscaling:
        """Return these limits less so many pods that are there at any load."""
        return replace(self, minimum=max(1, self.minimum - pods), maximum=self.maximum - pods) if pods else self

    def check_offered(self, offers: PlatformOffers) -> None:
        """Refuse a target whose metric nothing serves on the platform: the number of pods would never change.

        Raises:
            RefusalError: naming the target and the setting that has the platform serve it.
        """
        for target in self.targets if self.maximum > 1 else ():
            if offers.autoscaling is not None and target.needs and target.needs not in offers.autoscaling:
                raise RefusalError(
                    "autoscaling.targets",
                    target,
                    "nothing on the platform serves that metric",
                    "have the platform's owner set monitoring.autoscaling.enabled to true",
                )


def _check_zero(autoscaling: Autoscaling) -> None:
    for name, most in (("idle_seconds", _MAXIMUM_WAIT_SECONDS), ("hold_seconds", LONGEST_HOLD_SECONDS)):
        value: int | None = getattr(autoscaling, name)
        if value is None:
            continue
        if not autoscaling.scales_to_zero:
            limit = f"has no effect with minimum={autoscaling.minimum}"
            raise RefusalError(f"autoscaling.{name}", value, limit, f"set minimum=0, or omit {name}")
        check_range(f"autoscaling.{name}", value, 5, most)


def _check_targets(targets: Sequence[Target]) -> None:
    if not targets:
        raise RefusalError("autoscaling.targets", targets, "nothing would decide", "add one, such as CpuUtilisation()")
    names = [(type(target), getattr(target, "name", "")) for target in targets]
    for target, name in zip(targets, names, strict=True):
        if names.count(name) > 1:
            raise RefusalError("autoscaling.targets", target, "is there twice", "keep the stricter of the two")


def autoscaler_manifest(metadata: Manifest, service: str, autoscaling: Autoscaling) -> Manifest:
    """Return the autoscaler of a service: of its Deployment, which must not name `replicas` itself.

    It leaves a Deployment without pods alone until somebody starts the first one; the last one is the activator's.
    """
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": service},
        "minReplicas": max(1, autoscaling.minimum),
        "maxReplicas": autoscaling.maximum,
        "metrics": [target.manifest(service) for target in autoscaling.targets],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": autoscaling.scale_down_seconds}},
    }
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}
