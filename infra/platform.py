"""The platform handle: the one object that workloads know about the place they run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pulumi

from infra.alicloud.environment import create_environment
from infra.alicloud.storage import AlicloudStorage, AlicloudStorageArgs
from infra.cluster import ExistingCluster, existing_cluster_args
from infra.gpu.gpu_nodes import GpuNodes, GpuNodesArgs
from infra.image_policy import enforce_image_policy
from infra.images import platform_tensorflow_image, platform_trainer_image
from infra.job_cleanup import JobCleanUp, JobCleanUpArgs
from infra.manifests import Manifest, resource
from infra.monitoring.stack import declare_monitoring
from infra.namespaces import default_deny_manifest, namespace_manifest
from infra.outputs import PlatformOutputs
from infra.pools import NO_OFFERS, PlatformOffers, platform_offers
from infra.quotas import WorkloadLimits, WorkloadLimitsArgs
from infra.scheduling import GangScheduling, GangSchedulingArgs
from infra.simulated_nodes import SimulatedGpuNodes, SimulatedGpuNodesArgs
from infra.storage import DATA_CLAIM, OUTPUT_CLAIM, SharedStorage, SharedStorageArgs, choose_backing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi_kubernetes as kubernetes

    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.stack import Settings
    from infra.storage import Backing


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
    tensorflow_image: pulumi.Input[str] = ""
    """The same for TensorFlow jobs; empty where the nodes could pull none."""
    offers: pulumi.Input[PlatformOffers] = NO_OFFERS
    """Node pools, networks and Pod Security level that workloads are checked against."""
    prometheus_url: pulumi.Input[str] = ""
    """Prometheus inside the cluster; empty where the stack runs none of its own."""
    grafana_url: pulumi.Input[str] = ""
    """Grafana inside the cluster; empty where the stack runs none."""
    logs_url: pulumi.Input[str] = ""
    """The log store inside the cluster; empty where the stack runs none."""
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
            tensorflow_image=outputs.apply(lambda found: found.tensorflow_image),
            offers=outputs.apply(lambda found: found.platform_offers),
            prometheus_url=outputs.apply(lambda found: found.prometheus_url),
            grafana_url=outputs.apply(lambda found: found.grafana_url),
            logs_url=outputs.apply(lambda found: found.logs_url),
        )


def create_platform(settings: Settings) -> Platform:
    """Declare everything that workloads need, in the stack that owns it."""
    enforce_image_policy(settings.images)
    if settings.alicloud is None:
        return _on_existing_cluster(settings)
    return _on_alicloud(settings, settings.alicloud)


def _on_existing_cluster(settings: Settings) -> Platform:
    cluster = ExistingCluster("cluster", existing_cluster_args(settings.cluster))
    in_cluster = pulumi.ResourceOptions(provider=cluster.provider)
    if settings.cluster.simulated_nodes:
        simulated = SimulatedGpuNodesArgs(groups=settings.cluster.simulated_nodes, sharing=settings.gpu.sharing)
        SimulatedGpuNodes("simulated-nodes", simulated, in_cluster)
    namespace = _workload_namespace(settings, in_cluster)
    storage = _shared_storage(settings, choose_backing(settings), namespace, in_cluster)
    return _platform(settings, cluster.provider, nodes=(), ready=(namespace, *storage.claims))


def _on_alicloud(settings: Settings, alicloud: AlicloudSettings) -> Platform:
    environment = create_environment(alicloud, settings.images, settings.monitoring)
    provider = environment.cluster.provider
    in_cluster = pulumi.ResourceOptions(provider=provider)
    namespace = _workload_namespace(settings, in_cluster)
    files = AlicloudStorage(
        "files",
        AlicloudStorageArgs(
            settings=alicloud,
            storage=settings.storage,
            network=environment.network,
            cluster=environment.cluster,
            namespace=settings.namespace,
            depends_on=[namespace, *environment.nodes],
        ),
        pulumi.ResourceOptions(providers=[environment.provider, provider]),
    )
    storage = _shared_storage(settings, choose_backing(settings, files.backing), namespace, in_cluster)
    ready = (namespace, *environment.pod_networkings, *storage.claims, *files.claims)
    pulumi.export("alicloud_region", alicloud.region)
    pulumi.export("alicloud_vpc_id", environment.network.vpc_id)
    pulumi.export("alicloud_cluster_id", environment.cluster.cluster_id)
    return _platform(settings, provider, nodes=environment.nodes, ready=ready)


def _shared_storage(
    settings: Settings, backing: Backing, namespace: pulumi.Resource, in_cluster: pulumi.ResourceOptions
) -> SharedStorage:
    args = SharedStorageArgs(
        namespace=settings.namespace,
        settings=settings.storage,
        backing=backing,
        protected=settings.alicloud is not None and settings.alicloud.protected,
        depends_on=[namespace],
    )
    return SharedStorage("storage", args, in_cluster)


def _platform(
    settings: Settings,
    provider: kubernetes.Provider,
    *,
    nodes: Sequence[pulumi.Resource],
    ready: Sequence[pulumi.Resource],
) -> Platform:
    in_cluster = pulumi.ResourceOptions(provider=provider)
    gpu_parts: Sequence[pulumi.Resource] = ()
    if settings.gpu.device_plugin or settings.gpu.dcgm_exporter:
        gpu_parts = GpuNodes("gpu", GpuNodesArgs(settings=settings.gpu), in_cluster).parts
    offers = platform_offers(settings)
    args = GangSchedulingArgs(
        settings=settings.scheduling, namespace=settings.namespace, pools=offers.pools, nodes=nodes
    )
    scheduling = GangScheduling("scheduling", args, in_cluster)
    limits = WorkloadLimits("workload-limits", _limits_args(settings, offers, ready), in_cluster)
    if settings.clean_up.enabled:
        JobCleanUp("job-cleanup", _clean_up_args(settings, (*nodes, *ready, *scheduling.ready)), in_cluster)
    monitoring = declare_monitoring(settings, (*nodes, *ready, *gpu_parts, *scheduling.namespace), in_cluster)
    return Platform(
        provider=provider,
        namespace=settings.namespace,
        queue=settings.scheduling.queues[0].name,
        data_claim=DATA_CLAIM,
        output_claim=OUTPUT_CLAIM,
        trainer_image=platform_trainer_image(settings),
        tensorflow_image=platform_tensorflow_image(settings),
        offers=offers,
        prometheus_url=monitoring.prometheus_url if monitoring else "",
        grafana_url=monitoring.grafana_url if monitoring else "",
        logs_url=monitoring.logs_url if monitoring else "",
        depends_on=(*nodes, *ready, *gpu_parts, *scheduling.ready, *limits.parts),
    )


def _limits_args(
    settings: Settings, offers: PlatformOffers, depends_on: Sequence[pulumi.Resource]
) -> WorkloadLimitsArgs:
    return WorkloadLimitsArgs(
        namespace=settings.namespace,
        settings=settings.scheduling,
        pools=offers.pools,
        all_nodes_known=settings.alicloud is not None,
        depends_on=depends_on,
    )


def _clean_up_args(settings: Settings, depends_on: Sequence[pulumi.Resource]) -> JobCleanUpArgs:
    return JobCleanUpArgs(
        settings=settings.clean_up,
        namespace=settings.namespace,
        image=platform_trainer_image(settings),
        depends_on=depends_on,
    )


def _workload_namespace(settings: Settings, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    name = settings.namespace
    namespace = resource("workload-namespace", namespace_manifest(name, settings.pod_security), opts)
    deny: Manifest = default_deny_manifest(name)
    resource("workload-default-deny", deny, pulumi.ResourceOptions(provider=opts.provider, depends_on=[namespace]))
    return namespace
