"""Arguments of TorchScriptService, and what of them cannot go together."""

from __future__ import annotations

from dataclasses import dataclass, field

from infra.descriptions import Input, checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import Image
from infra.model_variants import ModelVariant
from infra.pod_network_modes import PodNetwork, SharedEni
from workloads.autoscaling import Autoscaling, CpuUtilisation, LatencyP99
from workloads.canary import MAXIMUM_VERSION, Canary, Track, tracks
from workloads.checks import WorkloadName, check_range
from workloads.resources import Resources
from workloads.tracing import Tracing
from workloads.triton import Runtime, Thin, Triton

DRAIN_SECONDS = 5
"""Endpoints are removed while a pod already shuts down: it keeps answering this long before it stops."""


@checked()
@dataclass(frozen=True, kw_only=True)
class TorchScriptServiceArgs:
    """Arguments of TorchScriptService."""

    model: WorkloadName
    """Model to serve: a folder of the repository, `/data/output/models/<model>`, in Triton's layout."""
    version: int | None = None
    """Version to serve, and wait for. Default: as the version_policy of the model's config.pbtxt says. By default
    that is the latest version, which is loaded without a failed request as soon as it appears."""
    variant: ModelVariant | None = None
    """Compressed variant to serve, such as "int8"; a version that was published without it is not served. Default: the
    model itself."""
    replicas: int | None = None
    """Serving pods, those of a canary included. Default: 1, or what `autoscaling` decides."""
    autoscaling: Autoscaling | None = None
    """Let the number of pods follow the load. Default: it is fixed."""
    canary: Canary | None = None
    """A second version that serves a part of the clients. Default: none."""
    runtime: Runtime = field(default_factory=Thin)
    """What serves: Thin() on CPUs, Triton() on GPUs."""
    resources: Resources = Resources()
    """What one pod asks for."""
    pool: str | None = None
    """Node pool to run on. Default: any whose nodes fit."""
    network: PodNetwork = SharedEni()
    """Network of the pods."""
    tracing: Tracing | None = None
    """Send traces of requests to a collector; for the thin runtime. Default: none."""
    image: Input[Image] | None = None
    """Image of the pods. Default: the platform's trainer image, for Triton NVIDIA's."""
    grace_period_seconds: int = 30
    """Time between SIGTERM and SIGKILL: requests under way must end within it."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the pods.

        Raises:
            RefusalError: naming the field, its value and what to write instead.
        """
        if self.version is not None:
            check_range("version", self.version, 1, MAXIMUM_VERSION)
        if self.replicas is not None:
            check_range("replicas", self.replicas, 0, 1000)
        check_range("grace_period_seconds", self.grace_period_seconds, 2 * DRAIN_SECONDS, 3600)
        _check_runtime(self)
        if self.autoscaling:
            _check_autoscaling(self, self.autoscaling)
        if self.canary:
            _check_canary(self, self.canary)

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The Deployments: one, or two with a canary."""
        fixed = 1 if self.replicas is None else self.replicas
        return tracks(None if self.autoscaling else fixed, self.version, self.canary)

    @property
    def most_pods(self) -> int:
        """Pods at the highest load."""
        return self.autoscaling.maximum if self.autoscaling else sum(track.replicas or 0 for track in self.tracks)


def _check_runtime(args: TorchScriptServiceArgs) -> None:
    asked = args.resources.accelerator
    if isinstance(args.runtime, Triton) and asked is None:
        raise RefusalError(
            "runtime",
            args.runtime,
            "serves on GPUs, but the pods request none",
            "add resources=Resources(gpus=1) or a share of a GPU, or omit runtime: Thin() serves on CPUs",
        )
    if isinstance(args.runtime, Triton) and args.variant is not None:
        limit = "is for the thin runtime: quantised kernels are for CPUs, and Triton serves what config.pbtxt names"
        raise RefusalError("variant", args.variant, limit, "omit variant, or runtime")
    if isinstance(args.runtime, Triton) and args.tracing is not None:
        limit = "is for the thin runtime: Triton has flags of its own, which this project does not set"
        raise RefusalError("tracing", args.tracing, limit, "omit tracing, or runtime")
    if isinstance(args.runtime, Thin) and asked is not None:
        limit = "the thin runtime computes on CPUs, so the GPUs would cost money and stay idle"
        raise RefusalError("resources.gpus", args.resources.gpus, limit, "add runtime=Triton(), or omit gpus")


def _check_autoscaling(args: TorchScriptServiceArgs, autoscaling: Autoscaling) -> None:
    if args.replicas is not None:
        limit = f"the autoscaler decides that, from {autoscaling.minimum} to {autoscaling.maximum}"
        raise RefusalError("replicas", args.replicas, limit, "omit replicas, or autoscaling")
    for target in autoscaling.targets:
        if isinstance(target, CpuUtilisation) and args.resources.accelerator:
            limit = "the pods compute on GPUs, so their CPUs stay idle even under full load"
            raise RefusalError("autoscaling.targets", target, limit, "use targets=[QueueDepth(requests=4)]")
        if isinstance(target, LatencyP99) and isinstance(args.runtime, Triton):
            limit = "Triton reports sums of its request times, and no quantile"
            raise RefusalError("autoscaling.targets", target, limit, "use targets=[QueueDepth(requests=4)]")


def _check_canary(args: TorchScriptServiceArgs, canary: Canary) -> None:
    if args.autoscaling:
        limit = "is a share of a fixed number of pods, which an autoscaler would change"
        raise RefusalError("canary", canary, limit, "set replicas instead of autoscaling while the canary runs")
    if args.version is None:
        limit = "needs a version for all other pods, or they would load the canary's as well"
        raise RefusalError(
            "canary", canary, limit, f"add version=… of the model in addition to canary.version={canary.version}"
        )
    if args.version == canary.version:
        limit = "is also the version of all other pods"
        raise RefusalError(
            "canary.version", canary.version, limit, "set canary.version to the new version and version to the old one"
        )
    canary.pods(1 if args.replicas is None else args.replicas)
