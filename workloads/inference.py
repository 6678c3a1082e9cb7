"""Serving of TorchScript models: the Open Inference Protocol v2 behind a Service, ready once its model exists."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pulumi

from infra.cuda import TRITON_IMAGE_CUDA
from infra.descriptions import require
from infra.errors import RefusalError
from infra.images import TRITON_IMAGE
from infra.kubernetes.grammar import Image
from infra.manifests import resource_from_output
from infra.pod_network_modes import HostNetwork
from workloads.checks import check_name
from workloads.cuda_fit import check_cuda
from workloads.network_policy import warn_without_network_policy
from workloads.owner import claim_names, own_label
from workloads.placement import Placement, check_placement, warn_of_pool_that_may_stay_empty
from workloads.resolved import ResolvedWorkload
from workloads.service_args import TorchScriptServiceArgs
from workloads.service_objects import service_objects
from workloads.serving_pods import placement, service_url
from workloads.shadow import SHADOW_SUFFIX
from workloads.triton import Triton

if TYPE_CHECKING:
    from infra.offers import PlatformOffers
    from infra.platform import Platform


__all__ = ["TorchScriptService", "TorchScriptServiceArgs"]


class TorchScriptService(pulumi.ComponentResource):
    """A TorchScript model served over HTTP.

    `up` does not wait for the model: the pods start, stay unready until training has exported it, then serve it.
    """

    url: pulumi.Output[str]
    """Address inside the cluster, such as http://digits.athanor.svc:8000."""
    track_urls: pulumi.Output[dict[str, str]]
    """Addresses of the two versions by `stable` and `canary`; empty without a canary."""
    external_url: pulumi.Output[str]
    """Address for clients outside the cluster, such as https://digits.models.example.com; empty without `expose`."""

    def __init__(
        self, name: str, platform: Platform, args: TorchScriptServiceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_name("service name", name)
        versions = [f"{name}-{track.label}" for track in args.tracks if track.label]
        claim_names(
            "service", f"the service {name!r}", [name, *versions, *([name + SHADOW_SUFFIX] if args.shadow else [])]
        )
        super().__init__("athanor:workloads:TorchScriptService", name, None, opts)
        warn_without_network_policy(args.network, self)
        platform.resolved().apply(
            lambda known: warn_of_pool_that_may_stay_empty(args.network, args.pool, known.offers, self)
        )
        self._tell_rounded_share(args)
        image = TRITON_IMAGE if isinstance(args.runtime, Triton) else _serving_image(platform)
        own_image, owner = pulumi.Output.from_input(args.image or image), own_label()
        resolved = platform.resolved().apply(
            lambda known: own_image.apply(
                lambda image: self._checked(name, args, ResolvedWorkload(platform=known, owner=owner, image=image))
            )
        )
        children = pulumi.ResourceOptions(parent=self, provider=platform.provider, depends_on=platform.depends_on)
        self._declare(name, args, resolved, children)
        self.url = resolved.apply(lambda known: service_url(name, known))
        labels = [track.label for track in args.tracks if track.label] if args.canary else []
        self.track_urls = resolved.apply(
            lambda known: {label: service_url(f"{name}-{label}", known) for label in labels}
        )
        self.external_url = resolved.apply(lambda known: _external_url(name, args, known))
        self.register_outputs({"url": self.url, "track_urls": self.track_urls, "external_url": self.external_url})

    def _declare(
        self,
        name: str,
        args: TorchScriptServiceArgs,
        resolved: pulumi.Output[ResolvedWorkload],
        children: pulumi.ResourceOptions,
    ) -> None:
        objects = service_objects(name, args)
        made: list[pulumi.Resource] = []
        for each in sorted(objects, key=lambda each: each.names_others):
            after = pulumi.ResourceOptions(depends_on=[*made]) if each.names_others else None
            options = pulumi.ResourceOptions.merge(children, after)
            made.append(resource_from_output(name + each.suffix, each.kind, resolved.apply(each.build), options))

    def _tell_rounded_share(self, args: TorchScriptServiceArgs) -> None:
        if args.canary is None or args.expose:
            return
        pods = args.canary.pods(args.most_pods)
        if pods * 100 != args.canary.percent * args.most_pods:
            rounded = f"canary: {pods} of {args.most_pods} pods, which is {pods / args.most_pods:.1%}"
            pulumi.log.info(f"{rounded}, for the requested {args.canary.percent} percent", self)

    def _checked(self, name: str, args: TorchScriptServiceArgs, resolved: ResolvedWorkload) -> ResolvedWorkload:
        asked = placement(name, args)
        check_placement(asked, resolved.platform.offers)
        if args.expose:
            args.expose.check_offered(resolved.platform.offers)
        if args.shadow_args:
            check_placement(placement(name + SHADOW_SUFFIX, args.shadow_args), resolved.platform.offers)
        if args.autoscaling:
            args.autoscaling.check_offered(resolved.platform.offers)
        if isinstance(args.runtime, Triton) and args.image is None:
            check_cuda(TRITON_IMAGE_CUDA, asked, resolved.platform.offers)
        require("image", resolved.image, Image)  # an Output is known only now
        if asked.resources.accelerator and not isinstance(args.network, HostNetwork):
            self._warn_without_room_for_a_rollout(asked, resolved.platform.offers)
        return resolved

    def _warn_without_room_for_a_rollout(self, asked: Placement, offers: PlatformOffers) -> None:
        try:
            check_placement(replace(asked, pods=asked.pods + 1), offers)
        except RefusalError as refusal:
            reason = "a rollout starts a new pod before it stops an old one, but there is no room for the new pod"
            pulumi.log.warn(f"{reason}: {refusal.limit}. Fix: use one replica fewer, or a larger pool", self)


def _serving_image(platform: Platform) -> pulumi.Output[str]:
    """Return the image of the thin server: an older stack's trainer image serves, too, and it exports no other."""
    known = pulumi.Output.all(platform.serving_image, platform.trainer_image)
    return known.apply(lambda images: images[0] or images[1])


def _external_url(name: str, args: TorchScriptServiceArgs, resolved: ResolvedWorkload) -> str:
    if args.expose is None:
        return ""
    return args.expose.address(name, args.expose.check_offered(resolved.platform.offers))
