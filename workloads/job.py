"""The component behind every kind of job: resolves the platform's values, and declares a job and its network policy."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pulumi

from infra.descriptions import require
from infra.errors import RefusalError, choices
from infra.kubernetes.grammar import Image, QueueName
from infra.machine import athanor_command
from infra.manifests import Manifest, resource, resource_from_output
from infra.workload_labels import ROLE_LABEL
from workloads.checks import check_name
from workloads.cuda_fit import check_cuda
from workloads.egress import Egress, check_egress
from workloads.git_source import SOURCE_ROLE, GitSource
from workloads.job_secrets import own_secret_manifest
from workloads.local_folder import LocalFolder, config_map_manifests
from workloads.network_policy import (
    PolicyIdentity,
    job_network_policy_manifest,
    source_network_policy_manifest,
    warn_without_network_policy,
)
from workloads.owner import claim_names, own_label
from workloads.placement import check_placement, warn_of_pool_that_may_stay_empty
from workloads.precision import check_precision
from workloads.resolved import ResolvedJob
from workloads.topology import check_together
from workloads.volcano_job import (
    KIND_LABEL,
    JobShape,
    job_labels,
    job_manifest,
    with_source,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.cuda import ImageCuda
    from infra.manifests import Manifest
    from infra.offers import PlatformOffers
    from infra.platform import Platform
    from workloads.job_args import JobArgs
    from workloads.volcano_job import JobShape


def named_job_manifest(
    name: str, args: JobArgs, shape: Callable[[str, ResolvedJob], JobShape], resolved: ResolvedJob
) -> Manifest:
    """Return the Volcano Job under `name` and the hash of its content.

    A changed job is a new object, never a patched one: Volcano would not carry most changes to pods that run.
    """
    content = job_manifest(name, name, args, shape(name, resolved), resolved)
    object_name = f"{name}-{content_digest(content, args.rerun)}"
    return job_manifest(name, object_name, args, shape(object_name, resolved), resolved)


def content_digest(manifest: Manifest, rerun: int) -> str:
    """Return 8 hex digits of the SHA-256 of what a job does: its spec, and which repetition of it this is."""
    content = [manifest["spec"], *([rerun] if rerun else [])]
    text = json.dumps(content if rerun else manifest["spec"], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


_MAXIMUM_BYTES = 1_000_000
"""etcd accepts requests of 1.5 MiB (--max-request-bytes); the object grows by the owners of its fields."""
_TYPES = "athanor:workloads:"
_VERSION = "batch.volcano.sh/v1alpha1"
_FAILED = ("Failed", "Terminated", "Aborted")
_ANY_END = " || ".join(f'@ == "{phase}"' for phase in ("Completed", *_FAILED))
_ENDED = f"jsonpath={{.status.state[?({_ANY_END})]}}"
"""One of its fields, the phase, has one of these values (RFC 9535, which the provider follows)."""
KINDS = ("BatchJob", "MPIJob", "PyTorchJob", "TensorFlowJob")
"""Names of the classes that derive from Job."""


def of_any_kind(kind: str, opts: pulumi.ResourceOptions | None, types: str = _TYPES) -> pulumi.ResourceOptions:
    """Make the engine treat a job of another kind as the same job; `types` starts the types of the kinds.

    The kind is part of the URN: else the new job would be created while the old one still holds the GPUs, and then lose
    what both call alike with the deletion of the old one.
    """
    others = [pulumi.Alias(type_=f"{types}{other}") for other in KINDS if other != kind]
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=others))


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
        claim_names("job", f"the {kind} {name!r}", [name])
        super().__init__(f"{_TYPES}{kind}", name, None, of_any_kind(kind, opts))
        warn_without_network_policy(args.network, self)
        platform.resolved().apply(
            lambda known: warn_of_pool_that_may_stay_empty(args.network, args.pool, known.offers, self)
        )
        image = args.image or (platform.trainer_image if default_image is None else default_image)
        built = _resolved(platform, image, args.queue or platform.queue).apply(
            lambda known: job_manifests(name, kind, args, shape, known)
        )
        children = pulumi.ResourceOptions(parent=self, provider=platform.provider, depends_on=platform.depends_on)
        policies = {"policy": f"{name}-network"}
        if isinstance(args.source, GitSource):
            policies["source_policy"] = f"{name}-source-network"
        opened = [
            resource_from_output(
                logical_name,
                ("networking.k8s.io/v1", "NetworkPolicy"),
                built.apply(lambda known, which=which: known[which]),
                children,
            )
            for which, logical_name in policies.items()
        ]
        code = _code(name, platform, args.source, children) if isinstance(args.source, LocalFolder) else []
        if args.secret_env:
            values = own_secret_manifest(args.secret_env, name, own_label(), platform.namespace)
            opened.append(resource(f"{name}-secret", values, children))
        job = _DeclaredJob(
            name,
            built.apply(lambda known: known["job"]),
            pulumi.ResourceOptions(
                parent=self,
                provider=platform.provider,
                depends_on=[*platform.depends_on, *opened, *code],
                # The old job must be gone before the new one asks for the same GPUs and writes to the same volume.
                delete_before_replace=True,
                custom_timeouts=_timeouts(args),
            ),
        )
        object_name = built.apply(lambda known: known["job"]["metadata"]["name"])
        self.job_name = object_name
        if args.wait_seconds:
            known = pulumi.Output.all(object_name, platform.namespace, job.status)
            self.job_name = known.apply(lambda each: _not_failed(platform.provider, *each))
        self.register_outputs({"job_name": self.job_name})


class _DeclaredJob(pulumi.CustomResource):
    """The Volcano Job, with the status that it had when the engine last looked."""

    status: pulumi.Output[Manifest | None]

    def __init__(self, name: str, manifest: pulumi.Output[Manifest], opts: pulumi.ResourceOptions) -> None:
        parts = {"apiVersion": _VERSION, "kind": "Job", "metadata": manifest["metadata"], "spec": manifest["spec"]}
        super().__init__(f"kubernetes:{_VERSION}:Job", name, {**parts, "status": None}, opts)


def _not_failed(
    provider: pulumi.ProviderResource, job_name: str, namespace: str, status: Manifest | None
) -> pulumi.Input[str]:
    """Return the name of a job that was waited for; if it failed, an Output that raises why."""
    known = status or {}
    state: Manifest = known.get("state") or {}
    if state.get("phase") not in _FAILED:
        return job_name
    count = int(known.get("failed") or 0)
    # As the program wrote them; no class of the SDK has them as attributes.
    reach = [pulumi.Output.from_input(vars(provider).get(name)) for name in ("kubeconfig", "context")]
    return pulumi.Output.all(*reach).apply(lambda each: _raise_failed(job_name, namespace, count, *each))


def _raise_failed(job_name: str, namespace: str, count: int, kubeconfig: str | None, context: str | None) -> NoReturn:
    """Refuse a job that failed, with its exit code and last words where kubectl finds them.

    Raises:
        RefusalError: always.
    """
    with tempfile.TemporaryDirectory(prefix="athanor-why-") as folder:
        file = Path(folder) / "kubeconfig"
        if is_content := (kubeconfig or "").lstrip().startswith("{") or "\n" in (kubeconfig or ""):
            file.touch(mode=0o600)
            file.write_text(kubeconfig or "", encoding="utf-8")
        named = {"kubeconfig": file if is_content else kubeconfig, "context": context}
        options = [f"--{name}={value}" for name, value in named.items() if value]
        # A process of its own: this layer knows nothing of what is running.
        why, environment = athanor_command("why", job_name, f"--namespace={namespace}", "--json", *options)
        said = subprocess.run(
            why, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment
        )
    if said.returncode == 0:
        finding: dict[str, Any] = json.loads(said.stdout)
        rest = "after a rerun, wait for its end and run `pulumi refresh`"
        fix = "\n".join([f"{finding['next_step']}; {rest}", *finding["last_words"]])
        raise RefusalError("job", job_name, finding["because"], fix)
    limit = f"failed, with {count} of its pods"
    fix = (
        f"`athanor why {job_name} --namespace {namespace}` has the exit code and the last words; change the job, or run"
        " it again and `pulumi refresh`"
    )
    raise RefusalError("job", job_name, limit, fix)


def _resolved(platform: Platform, image: pulumi.Input[str], queue: pulumi.Input[str]) -> pulumi.Output[ResolvedJob]:
    own, owner = pulumi.Output.all(image=image, queue=queue), own_label()
    return platform.resolved().apply(
        lambda known: own.apply(lambda values: ResolvedJob(platform=known, owner=owner, **values))
    )


def _code(
    name: str, platform: Platform, source: LocalFolder, opts: pulumi.ResourceOptions
) -> list[pulumi.CustomResource]:
    """Declare the ConfigMaps with a job's code; the state has their content encrypted."""
    manifests = config_map_manifests(source, name, own_label(), platform.namespace)
    return [
        resource(f"{name}-code-{part}", {**manifest, "binaryData": pulumi.Output.secret(manifest["binaryData"])}, opts)
        for part, manifest in enumerate(manifests)
    ]


def _timeouts(args: JobArgs) -> pulumi.CustomTimeouts | None:
    return pulumi.CustomTimeouts(create=f"{args.wait_seconds}s") if args.wait_seconds else None


def job_manifests(
    name: str,
    kind: str,
    args: JobArgs,
    shape: Callable[[str, ResolvedJob], JobShape],
    resolved: ResolvedJob,
) -> dict[str, Manifest]:
    """Return the manifests of the job and of its network policies.

    Raises:
        RefusalError: the platform cannot run it, as the preview says.
    """
    whole = with_source(shape(name, resolved), args, name)
    _check(name, args, whole, resolved)
    for role in whole.roles:
        placement, offers = role.placement(job_labels(name, resolved.owner)), resolved.platform.offers
        check_cuda(_image_cuda(resolved), placement, offers)
        check_precision(role.precision, placement, offers)
    job = named_job_manifest(name, args, shape, resolved)
    _check_size(name, job)
    job["metadata"]["labels"][KIND_LABEL] = kind
    if args.wait_seconds:
        job["metadata"]["annotations"] = {"pulumi.com/waitFor": _ENDED}
    labels = job_labels(name, resolved.owner)
    identity = PolicyIdentity(what="job", name=name, namespace=resolved.platform.namespace, owner=resolved.owner)
    egress = (*args.egress, *_egress_to_index(args, resolved.platform.offers))
    manifests = {"job": job, "policy": job_network_policy_manifest(identity, labels, whole.metrics_ports, egress)}
    if isinstance(args.source, GitSource):
        fetching = {**labels, ROLE_LABEL: SOURCE_ROLE}
        own = replace(identity, what="source")
        manifests["source_policy"] = source_network_policy_manifest(own, fetching, args.source.server)
    return manifests


def _egress_to_index(args: JobArgs, offers: PlatformOffers) -> list[Egress]:
    """Return the egress of a job that installs packages, if the platform names the index."""
    index = offers.package_index if args.requirements else None
    return [Egress(to=address, ports=(index.port,)) for address in index.addresses] if index else []


def _image_cuda(resolved: ResolvedJob) -> ImageCuda | None:
    """Return the CUDA in the job's image if it is one of the platform's; that of other images is not known."""
    platform = resolved.platform
    if resolved.image == platform.trainer_image:
        return platform.offers.trainer_cuda
    return platform.offers.tensorflow_cuda if resolved.image == platform.tensorflow_image else None


def _check_size(name: str, job: Manifest) -> None:
    size = len(json.dumps(job))
    if size > _MAXIMUM_BYTES:
        limit = f"its object has {size} bytes, but the cluster stores at most {_MAXIMUM_BYTES}"
        raise RefusalError("job", name, limit, "move long values into files, in the image or on a volume")


def _check(name: str, args: JobArgs, shape: JobShape, resolved: ResolvedJob) -> None:
    if not resolved.image:
        limit = "the platform has no image for this kind of job"
        raise RefusalError("image", resolved.image, limit, "name an image, or update the stack that owns the platform")
    # Outputs are known only now.
    require("image", resolved.image, Image)
    require("queue", resolved.queue, QueueName)
    offers = resolved.platform.offers
    for role in shape.roles:
        check_placement(role.placement(job_labels(name, resolved.owner)), offers)
    check_together(args.together, offers)
    check_egress(args.egress, offers.networks)
    if args.run_as_user == 0 and offers.pod_security == "restricted":
        limit = "is root, and the workloads' namespace is at Pod Security level 'restricted', which forbids it"
        fix = "omit it, or set athanor:pod_security to baseline, which applies to all workloads"
        raise RefusalError("run_as_user", args.run_as_user, limit, fix)
    if offers.queues and resolved.queue not in offers.queues:
        limit = "the platform has no queue of that name"
        raise RefusalError("queue", resolved.queue, limit, choices(resolved.queue, offers.queues))
    if args.ttl_seconds_after_finished is not None and not offers.clean_up:
        limit = "the platform does not remove the pods of finished jobs"
        fix = "set athanor:clean_up.enabled in the stack that owns the platform, or omit it"
        raise RefusalError("ttl_seconds_after_finished", args.ttl_seconds_after_finished, limit, fix)
