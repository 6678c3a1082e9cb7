"""Builds the platform: the cluster, its common parts, and the handle that workloads get."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi.runtime import stack

from infra.admission import WorkloadAdmission, WorkloadAdmissionArgs
from infra.cluster import ExistingCluster
from infra.cluster_access import existing_cluster_args
from infra.contract_object import contract_manifest
from infra.gateway.stack import declare_gateway
from infra.gpu.gpu_nodes import GpuNodes, GpuNodesArgs
from infra.image_policy import enforce_image_policy
from infra.images import platform_serving_image, platform_tensorflow_image, platform_trainer_image
from infra.job_cleanup import JobCleanUp, JobCleanUpArgs
from infra.manifests import resource
from infra.monitoring.stack import declare_monitoring
from infra.placeholders import warn_of_placeholders
from infra.platform import Platform
from infra.pools import platform_offers
from infra.quotas import WorkloadLimits, WorkloadLimitsArgs
from infra.run_module import run_module_manifest
from infra.scheduling import GangScheduling, GangSchedulingArgs
from infra.shared_storage import SharedStorage, SharedStorageArgs
from infra.simulated_nodes import SimulatedGpuNodes, SimulatedGpuNodesArgs
from infra.storage import DATA_CLAIM, OUTPUT_CLAIM, choose_backing
from infra.volcano.permissions import secret_permission_manifests
from infra.workload_namespace import WorkloadNamespace, WorkloadNamespaceArgs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi_kubernetes as kubernetes

    from infra.offers import PlatformOffers
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.stack import Settings
    from infra.storage import Backing


_sdk: Any = stack


def create_platform(settings: Settings) -> Platform:
    """Declare everything that workloads need, in the stack that owns it."""
    wait_for_outputs_at_once()
    leave_out_debug_lines()
    enforce_image_policy(settings.images)
    warn_of_placeholders(settings.images)
    if settings.alicloud is None:
        return _on_existing_cluster(settings)
    return _on_alicloud(settings, settings.alicloud)


def wait_for_outputs_at_once() -> None:
    """Make the SDK wait until all outputs are done or one has failed.

    After each output that is done, it would look at all that are left: of 190 resources that took 2.7 s of CPU, a third
    of the program's (pulumi 3.232, `wait_for_rpcs` in runtime/stack.py).
    """
    _sdk.asyncio = SimpleNamespace(**{**vars(asyncio), "FIRST_COMPLETED": asyncio.FIRST_EXCEPTION})


def leave_out_debug_lines() -> None:
    """Keep the SDK from writing debug lines, unless ATHANOR_SDK_DEBUG is set.

    It sends each to the engine and waits until that has thrown it away: of 190 resources 866, and while it waits it
    registers nothing (pulumi 3.232, `_log` in log.py). Only `pulumi --debug` shows them, which no program can see.
    """
    if not os.environ.get("ATHANOR_SDK_DEBUG"):
        pulumi.log.debug = _say_nothing


def _say_nothing(*_: object, **__: object) -> None:
    pass


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
    # Loading the cloud's SDK takes time and memory that a stack on another cluster need not spend.
    from infra.alicloud.environment import create_environment  # noqa: PLC0415
    from infra.alicloud.storage import AlicloudStorage, AlicloudStorageArgs  # noqa: PLC0415

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
    admission = _admission(settings, offers, in_cluster)
    in_namespace = pulumi.ResourceOptions(provider=provider, depends_on=list(ready))
    secrets = [
        resource(f"volcano-secrets-{manifest['kind'].lower()}", manifest, in_namespace)
        for manifest in secret_permission_manifests(settings.namespace)
    ]
    limits = WorkloadLimits("workload-limits", _limits_args(settings, offers, ready), in_cluster)
    if settings.clean_up.enabled:
        JobCleanUp("job-cleanup", _clean_up_args(settings, (*nodes, *ready, *scheduling.ready)), in_cluster)
    monitoring = declare_monitoring(settings, (*nodes, *ready, *gpu_parts, *scheduling.namespace), in_cluster)
    gateway = declare_gateway(settings, (*nodes, *ready), in_cluster)
    platform = Platform(
        provider=provider,
        namespace=settings.namespace,
        queue=settings.scheduling.queues[0].name,
        data_claim=DATA_CLAIM,
        output_claim=OUTPUT_CLAIM,
        trainer_image=platform_trainer_image(settings),
        serving_image=platform_serving_image(settings),
        tensorflow_image=platform_tensorflow_image(settings),
        offers=offers,
        prometheus_url=monitoring.prometheus_url if monitoring else "",
        grafana_url=monitoring.grafana_url if monitoring else "",
        logs_url=monitoring.logs_url if monitoring else "",
        depends_on=(*nodes, *ready, *gpu_parts, *scheduling.ready, *admission, *secrets, *limits.parts, *gateway),
    )
    described = pulumi.ResourceOptions(provider=provider, depends_on=[*ready, *limits.parts])
    outputs = pulumi.Output.json_dumps(platform.outputs(), sort_keys=True)
    resource("platform-contract", contract_manifest(platform.namespace, outputs), described)
    resource("athanor-run", run_module_manifest(platform.namespace), described)
    return platform


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


def _admission(
    settings: Settings, offers: PlatformOffers, in_cluster: pulumi.ResourceOptions
) -> Sequence[pulumi.Resource]:
    if settings.admission == "off":
        return ()
    args = WorkloadAdmissionArgs(
        namespace=settings.namespace,
        queues=offers.queues,
        priority_classes=offers.priority_classes,
        action=settings.admission,
    )
    return WorkloadAdmission("admission", args, in_cluster).parts


def _clean_up_args(settings: Settings, depends_on: Sequence[pulumi.Resource]) -> JobCleanUpArgs:
    return JobCleanUpArgs(
        settings=settings.clean_up,
        namespace=settings.namespace,
        image=platform_trainer_image(settings),
        depends_on=depends_on,
    )


def _workload_namespace(settings: Settings, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    args = WorkloadNamespaceArgs(
        name=settings.namespace, pod_security=settings.pod_security, may_leave=settings.leave_namespace
    )
    return WorkloadNamespace("workloads", args, opts).namespace
