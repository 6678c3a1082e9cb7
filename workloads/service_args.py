"""Arguments of TorchScriptService, and refusal of those that cannot be combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from infra.admitted import LARGEST_ROLE
from infra.descriptions import Input, checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import Image
from infra.model_variants import ModelVariant
from infra.pod_network_modes import PodNetwork, SharedEni
from workloads.autoscaling import Autoscaling, CpuUtilisation, LatencyP99
from workloads.canary import MAXIMUM_VERSION, Canary, Track, tracks
from workloads.checks import ModelName, check_range
from workloads.exposure import Expose
from workloads.placement import Spread
from workloads.resources import Resources
from workloads.served_models import ServedModel, check_models
from workloads.shadow import Shadow
from workloads.tracing import Tracing
from workloads.triton import Runtime, Thin, Triton

DRAIN_SECONDS = 5
"""Endpoints are removed while a pod already shuts down: it keeps answering this long before it stops."""


@checked()
@dataclass(frozen=True, kw_only=True)
class TorchScriptServiceArgs:
    """Arguments of TorchScriptService."""

    model: ModelName | None = None
    """Model to serve: a folder of the repository, `/data/output/models/<model>`, in Triton's layout. This, or
    `models`."""
    models: Sequence[ServedModel] = ()
    """Several models to serve from each pod, in a process each, for the thin runtime. Default: `model` alone."""
    version: int | None = None
    """Version to serve, and wait for. Default: as the version_policy of the model's config.pbtxt says. By default
    that is the latest version, which is loaded without a failed request as soon as it appears."""
    variant: ModelVariant | None = None
    """Compressed variant to serve, such as "int8"; a version that was published without it is not served. Default: the
    model itself."""
    replicas: int | None = None
    """Serving pods, those of a canary included. Default: 1, with a canary behind the gateway 2, or what `autoscaling`
    decides."""
    autoscaling: Autoscaling | None = None
    """Let the number of pods follow the load. Default: it is fixed."""
    canary: Canary | None = None
    """A second version that serves a part of the clients. Default: none."""
    shadow: Shadow | None = None
    """Another model, version or variant that gets a share of the requests, and whose answers are compared and thrown
    away; for the thin runtime. Default: none."""
    runtime: Runtime = field(default_factory=Thin)
    """What serves: Thin() on CPUs, Triton() on GPUs."""
    resources: Resources = Resources()
    """What one pod asks for."""
    pool: str | None = None
    """Node pool to run on. Default: any whose nodes fit."""
    expose: Expose | None = None
    """Let clients outside the cluster reach it, through the platform's gateway. Default: only pods do."""
    spread: Spread | None = None
    """How the pods are distributed. Default: evenly over nodes, where these have room."""
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
            check_range("replicas", self.replicas, 0, LARGEST_ROLE)
        check_range("grace_period_seconds", self.grace_period_seconds, 2 * DRAIN_SECONDS, 3600)
        _check_runtime(self)
        _check_model_or_models(self)
        if self.autoscaling:
            _check_autoscaling(self, self.autoscaling)
        if self.canary:
            _check_canary(self, self.canary)
        if self.shadow:
            _check_shadow(self, self.shadow)

    @property
    def model_names(self) -> list[str]:
        """Names of the models that a pod serves."""
        return [self.model] if self.model is not None else [each.model for each in self.models]

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The Deployments: one, or two with a canary."""
        return tracks(
            self.most_pods,
            self.version,
            self.canary,
            by_requests=self.expose is not None,
            autoscaled=self.autoscaling is not None,
        )

    @property
    def hold_seconds(self) -> int | None:
        """Seconds that a request waits for the first pod; None where a pod is always there."""
        if self.autoscaling is None or not self.autoscaling.scales_to_zero:
            return None
        return self.autoscaling.hold(on_gpus=self.resources.accelerator is not None)

    @property
    def most_pods(self) -> int:
        """Pods at the highest load."""
        if self.autoscaling:
            return self.autoscaling.maximum
        if self.replicas is not None:
            return self.replicas
        return 2 if self.canary and self.expose else 1

    @property
    def canary_pods(self) -> int:
        """Pods of the canary."""
        return sum(track.replicas or 0 for track in self.tracks if track.label == "canary")

    @property
    def shadow_args(self) -> TorchScriptServiceArgs | None:
        """The arguments of the shadow, which is a service of its own; None without one."""
        if self.shadow is None:
            return None
        is_other_model = self.shadow.model not in (None, self.model)
        return replace(
            self,
            model=self.shadow.model or self.model,
            version=self.shadow.version if self.shadow.version or is_other_model else self.version,
            variant=self.shadow.variant,
            replicas=self.shadow.replicas,
            resources=self.shadow.resources or self.resources,
            runtime=replace(self.runtime, grpc=False) if isinstance(self.runtime, Thin) else self.runtime,
            autoscaling=None,
            canary=None,
            expose=None,
            shadow=None,
        )


def _check_model_or_models(args: TorchScriptServiceArgs) -> None:
    if args.model is None and not args.models:
        raise RefusalError("model", args.model, "is missing", "add model=… or models=[ServedModel(model=…), …]")
    if not args.models:
        return
    if args.model is not None:
        limit = "cannot be combined with models, which lists all served models"
        raise RefusalError("model", args.model, limit, f"add ServedModel(model={args.model!r}) to models, or omit them")
    if isinstance(args.runtime, Triton):
        raise RefusalError("models", args.model_names, "are for the thin runtime", "use one service for each model")
    if args.canary is not None:
        limit = "concerns one model, but its pods would serve the others, too"
        raise RefusalError("canary", args.canary, limit, "use a service of its own for that model")
    if args.shadow is not None:
        raise RefusalError("shadow", args.shadow, "concerns one model", "use a service of its own for that model")
    for name, value in (("version", args.version), ("variant", args.variant)):
        if value is not None:
            fix = f"write {name}={value!r} in one of them: ServedModel(model={args.model_names[0]!r}, {name}={value!r})"
            raise RefusalError(name, value, "concerns one model, but models lists several", fix)
    check_models(args.models, args.resources)


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
    if autoscaling.scales_to_zero and args.expose is None:
        limit = "without a pod, only the gateway can hold the first request"
        raise RefusalError("autoscaling.minimum", 0, limit, "add expose=Expose(), or set minimum=1")
    for target in autoscaling.targets:
        if isinstance(target, CpuUtilisation) and args.resources.accelerator:
            limit = "the pods compute on GPUs, so their CPUs stay idle even under full load"
            raise RefusalError("autoscaling.targets", target, limit, "use targets=[QueueDepth(requests=4)]")
        if isinstance(target, LatencyP99) and isinstance(args.runtime, Triton):
            limit = "Triton reports sums of its request times, but no quantiles"
            raise RefusalError("autoscaling.targets", target, limit, "use targets=[QueueDepth(requests=4)]")


def _check_canary(args: TorchScriptServiceArgs, canary: Canary) -> None:
    if args.autoscaling:
        _check_autoscaled_canary(args, args.autoscaling, canary)
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
    canary.pods(args.most_pods, by_requests=args.expose is not None)


def _check_autoscaled_canary(args: TorchScriptServiceArgs, autoscaling: Autoscaling, canary: Canary) -> None:
    if args.expose is None:
        limit = "is a share of a fixed number of pods, which an autoscaler would change"
        fix = "set replicas instead of autoscaling while the canary runs, or add expose: a gateway shares out requests"
        raise RefusalError("canary", canary, limit, fix)
    if autoscaling.scales_to_zero:
        limit = "keeps a pod, but autoscaling.minimum=0 removes all pods without load"
        raise RefusalError("canary", canary, limit, "set autoscaling.minimum to 1 while the canary runs")
    if autoscaling.maximum == 1:
        limit = "each version needs a pod of its own"
        raise RefusalError("autoscaling.maximum", 1, limit, "set it to 2 or more while the canary runs")


def _check_shadow(args: TorchScriptServiceArgs, shadow: Shadow) -> None:
    if isinstance(args.runtime, Triton):
        limit = "is for the thin runtime: Triton sends requests to no other server"
        raise RefusalError("shadow", shadow, limit, "omit shadow, or runtime")
    if shadow.model not in (None, args.model) or shadow.variant != args.variant:
        return
    if shadow.version in (None, args.version):
        limit = "serves the same as the service, so the answers would always be equal"
        raise RefusalError("shadow", shadow, limit, "name another version, variant or model in it")
    if args.version is None:
        limit = "needs a version for the service's own pods, or they would load the shadow's as well"
        fix = f"add version=… of the model in addition to shadow.version={shadow.version}"
        raise RefusalError("shadow", shadow, limit, fix)
