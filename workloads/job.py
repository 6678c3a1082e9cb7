"""The component behind every kind of job: the platform's values resolved, a Volcano Job and its network policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi

from infra.errors import RefusalError, choices
from infra.manifests import Manifest, resource_from_output
from workloads.checks import check_name
from workloads.network_policy import job_network_policy_manifest, warn_without_network_policy
from workloads.placement import check_placement
from workloads.pods import Claims
from workloads.topology import check_together
from workloads.volcano_job import (
    KIND_LABEL,
    JobShape,
    ResolvedJob,
    content_digest,
    job_labels,
    job_manifest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.platform import Platform
    from workloads.job_args import JobArgs


class Job(pulumi.ComponentResource):
    """A job on the platform; its kinds derive from it.

    `up` returns when the job is accepted, not when it ends, unless its arguments say to wait. A changed image, command
    or size replaces the job with a new object under a new name, and the preview says so.
    """

    job_name: pulumi.Output[str]
    """Name of the Volcano Job: the given name and a hash of its content."""

    def __init__(  # noqa: PLR0913, PLR0917 - a component's own four, its kind and its shape
        self,
        name: str,
        platform: Platform,
        args: JobArgs,
        opts: pulumi.ResourceOptions | None,
        shape: Callable[[str, ResolvedJob], JobShape],
        default_image: pulumi.Input[str] | None = None,
    ) -> None:
        check_name("job name", name)
        kind = type(self).__name__
        super().__init__(f"athanor:workloads:{kind}", name, None, opts)
        warn_without_network_policy(args.network, self)
        built = pulumi.Output.all(
            namespace=platform.namespace,
            queue=args.queue or platform.queue,
            image=args.image or (platform.trainer_image if default_image is None else default_image),
            platform_image=platform.trainer_image,
            data=platform.data_claim,
            output=platform.output_claim,
            offers=platform.offers,
        ).apply(lambda known: _build(name, kind, args, shape, known))
        self.job_name = built.apply(lambda manifests: manifests[0]["metadata"]["name"])
        children = pulumi.ResourceOptions(parent=self, provider=platform.provider, depends_on=platform.depends_on)
        opened = resource_from_output(
            f"{name}-network",
            ("networking.k8s.io/v1", "NetworkPolicy"),
            built.apply(lambda manifests: manifests[1]),
            children,
        )
        resource_from_output(
            name,
            ("batch.volcano.sh/v1alpha1", "Job"),
            built.apply(lambda manifests: manifests[0]),
            pulumi.ResourceOptions(
                parent=self,
                provider=platform.provider,
                depends_on=[*platform.depends_on, opened],
                # The old job must be gone before the new one asks for the same GPUs and writes to the same volume.
                delete_before_replace=True,
                custom_timeouts=_timeouts(args),
            ),
        )
        self.register_outputs({"job_name": self.job_name})


def _timeouts(args: JobArgs) -> pulumi.CustomTimeouts | None:
    return pulumi.CustomTimeouts(create=f"{args.wait_seconds}s") if args.wait_seconds else None


def _build(
    name: str,
    kind: str,
    args: JobArgs,
    shape: Callable[[str, ResolvedJob], JobShape],
    known: dict[str, Any],
) -> tuple[Manifest, Manifest]:
    """Return the manifests of the job and of its network policy."""
    resolved = ResolvedJob(
        namespace=known["namespace"],
        queue=known["queue"],
        image=known["image"],
        platform_image=known["platform_image"],
        claims=Claims(data=known["data"], output=known["output"]),
        offers=known["offers"],
    )
    made = shape(name, resolved)
    _check(name, args, made, resolved)
    job = named_job_manifest(name, args, shape, resolved)
    job["metadata"]["labels"][KIND_LABEL] = kind
    if args.wait_seconds:
        job["metadata"]["annotations"] = {"pulumi.com/waitFor": "jsonpath={.status.state.phase}=Completed"}
    policy = job_network_policy_manifest(
        name,
        resolved.namespace,
        job_labels(name),
        made.metrics_ports,
        args.source.port if args.source else None,
    )
    return job, policy


def named_job_manifest(
    name: str, args: JobArgs, shape: Callable[[str, ResolvedJob], JobShape], resolved: ResolvedJob
) -> Manifest:
    """Return the Volcano Job under `name` and the hash of its content.

    A changed job is a new object, never a patched one: Volcano would not carry most changes to pods that run.
    """
    content = job_manifest(name, name, args, shape(name, resolved), resolved)
    object_name = f"{name}-{content_digest(content, args.rerun)}"
    return job_manifest(name, object_name, args, shape(object_name, resolved), resolved)


def _check(name: str, args: JobArgs, shape: JobShape, resolved: ResolvedJob) -> None:
    if not resolved.image:
        limit = "the platform names no image for this kind of job"
        raise RefusalError("image", resolved.image, limit, "name one, or update the stack that owns the platform")
    offers = resolved.offers
    for role in shape.roles:
        check_placement(role.placement(job_labels(name)), offers)
    check_together(args.together, offers)
    if offers.queues and resolved.queue not in offers.queues:
        limit = "the platform has no queue of that name"
        raise RefusalError("queue", resolved.queue, limit, choices(resolved.queue, offers.queues))
    if args.ttl_seconds_after_finished is not None and not offers.clean_up:
        limit = "the platform does not remove the pods of finished jobs"
        fix = "set athanor:clean_up.enabled in the stack that owns the platform, or leave it out"
        raise RefusalError("ttl_seconds_after_finished", args.ttl_seconds_after_finished, limit, fix)
