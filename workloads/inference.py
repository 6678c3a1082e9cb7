"""Serving TorchScript models: the Open Inference Protocol v2 behind a Service, ready once its model exists."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pulumi

from infra.errors import RefusalError
from infra.images import TRITON_IMAGE
from infra.manifests import resource_from_output
from infra.pod_network import HostNetwork, PodNetwork, SharedEni
from workloads.autoscaling import Autoscaling, CpuUtilisation
from workloads.canary import MAXIMUM_VERSION, Canary, Track, tracks
from workloads.checks import check_name, check_range
from workloads.network_policy import warn_without_network_policy
from workloads.placement import Placement, check_placement
from workloads.pods import Claims
from workloads.resources import Resources
from workloads.serving_pods import DRAIN_SECONDS, HTTP_PORT, ResolvedService, placement, service_objects
from workloads.triton import Runtime, Thin, Triton

if TYPE_CHECKING:
    from infra.platform import Platform
    from infra.pools import PlatformOffers


@dataclass(frozen=True, kw_only=True)
class TorchScriptServiceArgs:
    """Arguments of TorchScriptService."""

    model: str
    """Model to serve: a folder of the repository, `/data/output/models/<model>`, in Triton's layout."""
    version: int | None = None
    """Version to serve, and wait for. Default: as the version_policy of the model's config.pbtxt says, which is the
    newest unless it says otherwise, taken over without a failed request as soon as it appears."""
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
    image: pulumi.Input[str] | None = None
    """Image of the pods. Default: the platform's trainer image, for Triton NVIDIA's."""
    grace_period_seconds: int = 30
    """Time between SIGTERM and SIGKILL: requests under way must end within it."""

    def __post_init__(self) -> None:
        """Refuse what could only fail later, in the pods.

        Raises:
            RefusalError: naming the field, its value and what to write instead.
        """
        check_name("model", self.model)
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
            "serves on GPUs, and the pods ask for none",
            "add resources=Resources(gpus=1) or a share of one, or leave runtime out: Thin() serves on CPUs",
        )
    if isinstance(args.runtime, Thin) and asked is not None:
        limit = "the thin runtime computes on CPUs: the GPUs would be paid for and idle"
        raise RefusalError("resources.gpus", args.resources.gpus, limit, "add runtime=Triton(), or leave gpus out")


def _check_autoscaling(args: TorchScriptServiceArgs, autoscaling: Autoscaling) -> None:
    if args.replicas is not None:
        limit = f"the autoscaler decides that, from {autoscaling.minimum} to {autoscaling.maximum}"
        raise RefusalError("replicas", args.replicas, limit, "leave replicas out, or autoscaling")
    if isinstance(autoscaling.target, CpuUtilisation) and args.resources.accelerator:
        raise RefusalError(
            "autoscaling.target",
            autoscaling.target,
            "the pods compute on GPUs: their CPUs idle under the highest load",
            'use target=PodsMetric(name="nv_inference_pending_request_count", average="4")',
        )


def _check_canary(args: TorchScriptServiceArgs, canary: Canary) -> None:
    if args.autoscaling:
        limit = "is a share of a fixed number of pods, which an autoscaler would change"
        raise RefusalError("canary", canary, limit, "set replicas instead of autoscaling while the canary runs")
    if args.version is None:
        limit = "needs a version for all other pods: they would take over the canary's as well"
        raise RefusalError(
            "canary", canary, limit, f"add version=… of the model beside canary.version={canary.version}"
        )
    if args.version == canary.version:
        limit = "is the version of all other pods, too"
        raise RefusalError("canary.version", canary.version, limit, "name the new version here and the old as version")
    canary.pods(1 if args.replicas is None else args.replicas)


class TorchScriptService(pulumi.ComponentResource):
    """A TorchScript model served over HTTP.

    `up` does not wait for the model: the pods start, stay unready until training has exported it, then serve it.
    """

    url: pulumi.Output[str]
    """Address inside the cluster, such as http://digits.athanor.svc:8000."""
    track_urls: pulumi.Output[dict[str, str]]
    """Addresses of the two versions by `stable` and `canary`; empty without a canary."""

    def __init__(
        self, name: str, platform: Platform, args: TorchScriptServiceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_name("service name", name)
        super().__init__("athanor:workloads:TorchScriptService", name, None, opts)
        warn_without_network_policy(args.network, self)
        self._tell_rounded_share(args)
        image = TRITON_IMAGE if isinstance(args.runtime, Triton) else platform.trainer_image
        resolved = pulumi.Output.all(
            namespace=platform.namespace,
            image=args.image or image,
            data=platform.data_claim,
            output=platform.output_claim,
            offers=platform.offers,
        ).apply(lambda known: self._resolve(name, args, known))
        children = pulumi.ResourceOptions(parent=self, provider=platform.provider, depends_on=platform.depends_on)
        for found in service_objects(name, args):
            resource_from_output(name + found.suffix, found.kind, resolved.apply(found.build), children)
        self.url = resolved.apply(lambda known: _url(name, known))
        labels = [track.label for track in args.tracks if track.label]
        self.track_urls = resolved.apply(lambda known: {label: _url(f"{name}-{label}", known) for label in labels})
        self.register_outputs({"url": self.url, "track_urls": self.track_urls})

    def _tell_rounded_share(self, args: TorchScriptServiceArgs) -> None:
        if args.canary is None:
            return
        pods = args.canary.pods(args.most_pods)
        if pods * 100 != args.canary.percent * args.most_pods:
            told = f"canary: {pods} of {args.most_pods} pods, which is {pods / args.most_pods:.1%}"
            pulumi.log.info(f"{told}, for the {args.canary.percent} percent asked for", self)

    def _resolve(self, name: str, args: TorchScriptServiceArgs, known: dict[str, Any]) -> ResolvedService:
        asked = placement(name, args)
        check_placement(asked, known["offers"])
        if asked.resources.accelerator and not isinstance(args.network, HostNetwork):
            self._warn_without_room_for_a_rollout(asked, known["offers"])
        return ResolvedService(
            namespace=known["namespace"],
            image=known["image"],
            claims=Claims(data=known["data"], output=known["output"]),
            offers=known["offers"],
        )

    def _warn_without_room_for_a_rollout(self, asked: Placement, offers: PlatformOffers) -> None:
        try:
            check_placement(replace(asked, pods=asked.pods + 1), offers)
        except RefusalError as refusal:
            told = "a rollout starts a new pod before it stops an old one, and there is no room for it"
            pulumi.log.warn(f"{told}: {refusal.limit}. Fix: one replica less, or a larger pool", self)


def _url(host: str, resolved: ResolvedService) -> str:
    return f"http://{host}.{resolved.namespace}.svc:{HTTP_PORT}"
