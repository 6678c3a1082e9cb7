"""How many pods a service has when that follows its load: the HorizontalPodAutoscaler of a Deployment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infra.descriptions import checked
from infra.errors import RefusalError
from workloads.checks import check_range

if TYPE_CHECKING:
    from infra.manifests import Manifest

_METRIC = re.compile(r"[A-Za-z_][A-Za-z0-9_:.-]*")
_AMOUNT = re.compile(r"(?=.*[1-9])([0-9]+m|[0-9]+(\.[0-9]+)?)")
_MAXIMUM_PODS = 1000
_MAXIMUM_WINDOW_SECONDS = 3600


@checked("autoscaling.target")
@dataclass(frozen=True, kw_only=True)
class CpuUtilisation:
    """CPU that the pods use, as a share of what they request; the cluster must run metrics-server."""

    percent: int = 70

    def __post_init__(self) -> None:
        """Refuse what no pod can be held at."""
        check_range("autoscaling.target.percent", self.percent, 1, 100)

    def manifest(self) -> Manifest:
        """Return the metric as an autoscaler names it."""
        target = {"type": "Utilization", "averageUtilization": self.percent}
        return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


@checked("autoscaling.target")
@dataclass(frozen=True, kw_only=True)
class PodsMetric:
    """A number that every pod reports; the cluster must run an adapter that offers it, such as prometheus-adapter."""

    name: str
    """Name in the custom metrics API, such as nv_inference_pending_request_count."""
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

    def manifest(self) -> Manifest:
        """Return the metric as an autoscaler names it."""
        target = {"type": "AverageValue", "averageValue": self.average}
        return {"type": "Pods", "pods": {"metric": {"name": self.name}, "target": target}}


@checked("autoscaling")
@dataclass(frozen=True, kw_only=True)
class Autoscaling:
    """As many pods as hold a number at its target."""

    minimum: int = 1
    """Pods without load. None at all would leave nobody to measure."""
    maximum: int
    """Pods at the highest load."""
    target: CpuUtilisation | PodsMetric = CpuUtilisation()
    """What to hold. On GPUs a PodsMetric: there the CPU idles under the highest load."""
    scale_down_seconds: int = 300
    """Pods go only when fewer were enough for so long: a short pause must not cost warm pods."""

    def __post_init__(self) -> None:
        """Refuse limits that cannot hold."""
        check_range("autoscaling.minimum", self.minimum, 1, _MAXIMUM_PODS)
        check_range("autoscaling.maximum", self.maximum, 1, _MAXIMUM_PODS)
        check_range("autoscaling.scale_down_seconds", self.scale_down_seconds, 0, _MAXIMUM_WINDOW_SECONDS)
        if self.maximum < self.minimum:
            limit = f"must be at least the minimum, {self.minimum}"
            raise RefusalError("autoscaling.maximum", self.maximum, limit, "raise it, or lower the minimum")


def autoscaler_manifest(metadata: Manifest, deployment: str, autoscaling: Autoscaling) -> Manifest:
    """Return the autoscaler of a Deployment, which must not name `replicas` itself."""
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
        "minReplicas": autoscaling.minimum,
        "maxReplicas": autoscaling.maximum,
        "metrics": [autoscaling.target.manifest()],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": autoscaling.scale_down_seconds}},
    }
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}
