"""The platform handle: the one object that workloads know about the place they run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pulumi

from infra.cluster import ExistingCluster, existing_cluster_args
from infra.image_policy import enforce_image_policy
from infra.images import platform_trainer_image
from infra.manifests import Manifest, resource
from infra.namespaces import default_deny_manifest, namespace_manifest
from infra.outputs import PlatformOutputs
from infra.pools import NO_OFFERS, PlatformOffers, pool_offers
from infra.scheduling import GangScheduling, GangSchedulingArgs
from infra.simulated_nodes import SimulatedGpuNodes, SimulatedGpuNodesArgs
from infra.storage import DATA_CLAIM, OUTPUT_CLAIM, SharedStorage, SharedStorageArgs, choose_backing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi_kubernetes as kubernetes

    from infra.settings.stack import Settings


@dataclass(frozen=True, kw_only=True)
class Platform:
    """Where workloads run: built by `create_platform` in the owning stack, by `from_stack` in any other."""

    provider: kubernetes.Provider
    """Provider of the cluster."""
    namespace: pulumi.Input[str]
    """Namespace of the workloads."""
    queue: pulumi.Input[str]
    """Volcano queue of jobs that name none."""
    data_claim: pulumi.Input[str]
    """PersistentVolumeClaim mounted at /data/data."""
    output_claim: pulumi.Input[str]
    """PersistentVolumeClaim mounted at /data/output."""
    trainer_image: pulumi.Input[str]
    """Image of trainer/: one image for every role."""
    offers: pulumi.Input[PlatformOffers] = NO_OFFERS
    """Node pools, networks and Pod Security level that workloads are checked against."""
    depends_on: Sequence[pulumi.Resource] = ()
    """What must exist before a workload and be gone only after it."""

    @classmethod
    def from_stack(cls, stack: str, provider: kubernetes.Provider) -> Self:
        """Return the platform that another stack owns, from its outputs.

        Args:
            stack: Full name of the owning stack, such as `organization/athanor/prod`.
            provider: Provider of that stack's cluster. Credentials are not part of the outputs: every team brings
                its own.

        Raises:
            RefusalError: (when the outputs are read) they miss a key or follow a newer contract than this code.
        """
        outputs = PlatformOutputs.read(pulumi.StackReference(stack))
        return cls(
            provider=provider,
            namespace=outputs.apply(lambda found: found.namespace),
            queue=outputs.apply(lambda found: found.queue),
            data_claim=outputs.apply(lambda found: found.data_claim),
            output_claim=outputs.apply(lambda found: found.output_claim),
            trainer_image=outputs.apply(lambda found: found.trainer_image),
        )


def create_platform(settings: Settings) -> Platform:
    """Declare everything that workloads need, in the stack that owns it."""
    enforce_image_policy(settings.images)
    cluster = ExistingCluster("cluster", existing_cluster_args(settings.cluster))
    in_cluster = pulumi.ResourceOptions(provider=cluster.provider)
    if settings.cluster.simulated_nodes:
        simulated = SimulatedGpuNodesArgs(groups=settings.cluster.simulated_nodes, sharing=settings.gpu.sharing)
        SimulatedGpuNodes("simulated-nodes", simulated, in_cluster)
    namespace = _workload_namespace(settings.namespace, in_cluster)
    scheduling = GangScheduling("scheduling", GangSchedulingArgs(settings=settings.scheduling), in_cluster)
    storage = SharedStorage(
        "storage",
        SharedStorageArgs(
            namespace=settings.namespace,
            settings=settings.storage,
            backing=choose_backing(settings),
            depends_on=[namespace],
        ),
        in_cluster,
    )
    return Platform(
        provider=cluster.provider,
        namespace=settings.namespace,
        queue=settings.scheduling.queues[0].name,
        data_claim=DATA_CLAIM,
        output_claim=OUTPUT_CLAIM,
        trainer_image=platform_trainer_image(settings),
        offers=PlatformOffers(pools=pool_offers(settings)),
        depends_on=(namespace, *scheduling.queues, *storage.claims),
    )


def _workload_namespace(name: str, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    namespace = resource("workload-namespace", namespace_manifest(name), opts)
    deny: Manifest = default_deny_manifest(name)
    resource("workload-default-deny", deny, pulumi.ResourceOptions(provider=opts.provider, depends_on=[namespace]))
    return namespace
