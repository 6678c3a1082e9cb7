"""Builds the platform: the cluster, its common parts, and the handle that workloads get."""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pulumi
from pulumi.runtime import register_stack_transformation, stack

from infra.admission import WorkloadAdmission, WorkloadAdmissionArgs
from infra.cluster import ExistingCluster
from infra.cluster_access import existing_cluster_args
from infra.contract_object import contract_manifest
from infra.errors import RefusalError
from infra.gateway.stack import declare_gateway
from infra.gpu.gpu_nodes import GpuNodes, GpuNodesArgs
from infra.gpu.sharing import advertised
from infra.images import mirror, platform_serving_image, platform_tensorflow_image, platform_trainer_image
from infra.instance_types import instance_type
from infra.job_cleanup import JobCleanUp, JobCleanUpArgs
from infra.kubernetes.quantities import gib_quantity
from infra.manifests import Manifest, resource
from infra.monitoring.stack import declare_monitoring
from infra.node_labels import POOL_LABEL, SIMULATED_LABEL, ZONE_LABEL
from infra.offers import GPU_TAINT
from infra.platform import Platform
from infra.pools import SIMULATED_TAINT, platform_offers, simulated_pool_name, simulated_zones
from infra.quotas import WorkloadLimits, WorkloadLimitsArgs
from infra.registry import CONTAINERS
from infra.run_module import run_module_manifest
from infra.scheduling import GangScheduling, GangSchedulingArgs
from infra.shared_storage import SharedStorage, SharedStorageArgs
from infra.storage import DATA_CLAIM, OUTPUT_CLAIM, choose_backing
from infra.volcano.permissions import secret_permission_manifests
from infra.workload_namespace import WorkloadNamespace, WorkloadNamespaceArgs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pulumi_kubernetes as kubernetes

    from infra.offers import PlatformOffers
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.cluster import SimulatedNodes
    from infra.settings.gpu import Sharing
    from infra.settings.images import ImageSettings
    from infra.settings.stack import Settings
    from infra.storage import Backing

# They render their pods in the engine or in Helm, where no image could be seen, let alone rewritten. (`helm.v3.Chart`
# and `yaml.ConfigFile` render in this program.)
_OPAQUE = ("kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:", "kubernetes:yaml/v2:", "kubernetes:kustomize/v2:")
_DEFINITION = "CustomResourceDefinition"
_Object = dict[str, Any]
_T = TypeVar("_T")
_R = TypeVar("_R")


def enforce_image_policy(settings: ImageSettings) -> None:
    """Rewrite the images and add the pull secrets of every Kubernetes object that is declared from now on.

    A transformation of the whole stack, so that no builder has to think of it and none can forget it. To be called
    once, before anything is declared.
    """
    place = mirror(settings)
    if place is None and not settings.pull_secrets:
        return

    def transformed(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if not args.type_.startswith("kubernetes:") or args.type_.endswith(_DEFINITION):
            return None
        if args.type_.startswith(_OPAQUE):
            raise RefusalError(
                args.name,
                args.type_,
                "renders its pods where images.registry and images.pull_secrets have no effect",
                "declare the chart's objects as manifests, through infra.manifests.resource",
            )
        rewrite = place.rewrite if place else str
        props = {key: with_image_policy(value, rewrite, settings.pull_secrets) for key, value in args.props.items()}
        return pulumi.ResourceTransformationResult(props, args.opts)

    register_stack_transformation(transformed)


def with_image_policy(node: object, rewrite: Callable[[str], str], pull_secrets: Sequence[str] = ()) -> object:
    """Return a manifest with every image rewritten and pull secrets added to every pod; Outputs may be anywhere in it.

    Raises:
        RefusalError: a part is an object of the SDK's classes instead of a plain dict, which cannot be looked into.
    """
    if isinstance(node, pulumi.Output):
        output = cast("pulumi.Output[object]", node)
        return output.apply(lambda known: with_image_policy(known, rewrite, pull_secrets))
    if isinstance(node, list | tuple):
        return [with_image_policy(item, rewrite, pull_secrets) for item in cast("list[object]", node)]
    if isinstance(node, dict):
        fields = cast("_Object", node)
        walked = {key: with_image_policy(value, rewrite, pull_secrets) for key, value in fields.items()}
        is_pod = isinstance(fields.get("containers"), list | pulumi.Output)
        return _pod(walked, rewrite, pull_secrets) if is_pod else walked
    if node is None or isinstance(node, str | int | float | bool):
        return node
    raise RefusalError(
        "manifest", type(node).__name__, "hides its images from the registry setting", "write it as a plain dict"
    )


def _pod(pod: _Object, rewrite: Callable[[str], str], pull_secrets: Sequence[str]) -> _Object:
    changed = dict(pod)
    for key in CONTAINERS:
        if key in pod:
            changed[key] = _lifted(pod[key], lambda items: [_with_image(item, "image", rewrite) for item in items])
    if "volumes" in pod:
        changed["volumes"] = _lifted(pod["volumes"], lambda items: [_volume(item, rewrite) for item in items])
    if pull_secrets:
        references = [{"name": name} for name in pull_secrets]
        own: list[_Object] = pod.get("imagePullSecrets") or []
        changed["imagePullSecrets"] = _lifted(
            own, lambda items: items + [new for new in references if new not in items]
        )
    return changed


def _volume(volume: _Object, rewrite: Callable[[str], str]) -> _Object:
    return {**volume, "image": _with_image(volume["image"], "reference", rewrite)} if "image" in volume else volume


def _with_image(holder: _Object, key: str, rewrite: Callable[[str], str]) -> _Object:
    return {**holder, key: _lifted(holder[key], rewrite)} if key in holder else holder


def _lifted(value: _T | pulumi.Output[_T], change: Callable[[_T], _R]) -> _R | pulumi.Output[_R]:
    return cast("pulumi.Output[_T]", value).apply(change) if isinstance(value, pulumi.Output) else change(value)


KWOK_ANNOTATION = "kwok.x-k8s.io/node"
_PODS_PER_NODE = 110


def simulated_node_manifest(name: str, type_name: str, zone: str, sharing: Sharing | None = None) -> Manifest:
    """Return a Node with the capacity of an instance type, tainted so that no real pod lands on it by accident."""
    facts = instance_type(type_name)
    gpu_labels: dict[str, str] = {}
    taints = [SIMULATED_TAINT]
    capacity = {
        "cpu": str(facts.vcpus),
        "memory": gib_quantity(facts.memory_gib),
        "pods": str(min(_PODS_PER_NODE, facts.shared_eni_pods)),
        **advertised(sharing, facts),
    }
    if facts.gpus:
        taints.append(GPU_TAINT)
        gpu_labels = {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.count": str(facts.gpus),
            "nvidia.com/gpu.memory": str(facts.gpu_memory_gib * 1024),
        }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {KWOK_ANNOTATION: "fake", "pulumi.com/skipAwait": "true"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": facts.name,
                **gpu_labels,
                SIMULATED_LABEL: "true",
                POOL_LABEL: simulated_pool_name(facts.name),
                ZONE_LABEL: zone,
            },
        },
        "spec": {"taints": [asdict(taint) for taint in taints]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


@dataclass(frozen=True, kw_only=True)
class SimulatedGpuNodesArgs:
    """Arguments of SimulatedGpuNodes."""

    groups: Sequence[SimulatedNodes]
    sharing: Sharing | None = None
    """Sharing that a device plugin would announce there; nobody runs on a simulated node to do it."""


class SimulatedGpuNodes(pulumi.ComponentResource):
    """The simulated nodes of a stack."""

    def __init__(self, name: str, args: SimulatedGpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:SimulatedGpuNodes", name, None, opts)
        for group in args.groups:
            zones = simulated_zones(group.count)
            for index in range(group.count):
                node = f"sim-{simulated_pool_name(group.instance_type)}-{index}"
                manifest = simulated_node_manifest(node, group.instance_type, zones[index % len(zones)], args.sharing)
                resource(node, manifest, pulumi.ResourceOptions(parent=self))
        self.register_outputs({})


PLACEHOLDERS = frozenset(
    {
        "athanor-registry-vpc.cn-beijing.cr.aliyuncs.com/mirror",
        "athanor-registry-vpc.cn-hangzhou.cr.aliyuncs.com/mirror",
        "cri-athanor0dev00000",
        "cri-athanor0prod0000",
    }
)
"""Registries and registry instances in Pulumi.<stack>.yaml as committed."""


def warn_of_placeholders(images: ImageSettings) -> None:
    """Say in the preview which settings still have the values that this repository came with."""
    values = {"images.registry": images.registry, "images.acr_instance_id": images.acr_instance_id}
    kept = [f"athanor:{name} = {value}" for name, value in values.items() if value in PLACEHOLDERS]
    if kept:
        pulumi.log.warn(
            f"Placeholders remain in Pulumi.{pulumi.get_stack()}.yaml: {', '.join(kept)}. No image could be pulled."
            " Fix: replace them with your own registry and instance"
        )


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
