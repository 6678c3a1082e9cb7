"""The offers of a stack's node pools to workloads, derived from the settings alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gpu.sharing import shares_per_gpu
from infra.images import tensorflow_cuda, trainer_cuda
from infra.instance_types import RdmaKind, instance_type
from infra.offers import GPU_TAINT, GatewayOffer, PackageIndexOffer, PlatformOffers, PoolOffer, Taint, node_facts
from infra.priorities import priority_class_name
from infra.settings.gpu import Mps, Sharing

if TYPE_CHECKING:
    from infra.autoscaling_metrics import AutoscalingMetric
    from infra.settings.cluster import SimulatedNodes
    from infra.settings.node_pools import NodePoolSettings
    from infra.settings.stack import Settings

SIMULATED_TAINT = Taint(key="kwok.x-k8s.io/node", value="fake")
"""On every simulated node: a real pod must not land there by accident."""
_SIMULATED_ZONES = ("simulated-a", "simulated-b")
_LINGJUN_TAINT = Taint(key="node-role.alibabacloud.com/lingjun", value="")


def pool_offers(settings: Settings) -> tuple[PoolOffer, ...]:
    """Return the offers of every pool of a stack; a cluster that exists already offers its simulated nodes alone.

    Raises:
        RefusalError: an instance type is unknown, or cannot be split into the MIG profile.
    """
    if settings.alicloud is None:
        return tuple(_simulated_offer(group, settings.gpu.sharing) for group in settings.cluster.simulated_nodes)
    return tuple(_ack_offer(pool, pool.zones or settings.alicloud.zones) for pool in settings.alicloud.node_pools)


def platform_offers(settings: Settings) -> PlatformOffers:
    """Return the offers of a stack's platform."""
    networkings = settings.alicloud.pod_networkings if settings.alicloud else ()
    pools = pool_offers(settings)
    priorities = settings.scheduling.priority_classes
    return PlatformOffers(
        pools=pools,
        pod_networkings=tuple(networking.name for networking in networkings),
        pod_security=settings.pod_security,
        queues=tuple(queue.name for queue in settings.scheduling.queues),
        priority_classes=tuple(priority_class_name(settings.namespace, priority.name) for priority in priorities),
        topology=settings.scheduling.install and any(pool.zones for pool in pools),
        clean_up=settings.clean_up.enabled,
        trainer_cuda=trainer_cuda(settings.images),
        tensorflow_cuda=tensorflow_cuda(settings.images),
        mps=isinstance(settings.gpu.sharing, Mps),
        gpus_by_variable=not settings.gpu.device_plugin or settings.gpu.device_list == "envvar",
        gpu_runtime_class=settings.gpu.runtime_class,
        networks=_networks(settings),
        autoscaling=_autoscaling_metrics(settings),
        gateway=_gateway_offer(settings),
        package_index=_package_index_offer(settings),
    )


def _networks(settings: Settings) -> tuple[str, ...]:
    """Return the CIDRs of a stack's networks, as far as it knows them."""
    if settings.alicloud is None:
        return ()
    network = settings.alicloud.network
    return tuple(str(cidr) for cidr in (network.vpc_cidr, network.service_cidr) if cidr)


def _autoscaling_metrics(settings: Settings) -> tuple[AutoscalingMetric, ...]:
    """Return the metrics that autoscalers can hold. Users' own clusters are assumed to run a metrics-server."""
    has_cpu = settings.serves_resource_metrics or not settings.runs_on_own_local_cluster
    cpu: tuple[AutoscalingMetric, ...] = ("cpu",) if has_cpu else ()
    return (*cpu, "queue_depth", "latency") if settings.monitoring.has_metrics_adapter else cpu


def _gateway_offer(settings: Settings) -> GatewayOffer | None:
    gateway = settings.gateway
    return GatewayOffer(domain=gateway.domain, public=gateway.address == "public") if gateway.enabled else None


def _package_index_offer(settings: Settings) -> PackageIndexOffer | None:
    index = settings.package_index
    if index is None:
        return None
    return PackageIndexOffer(url=index.url, addresses=tuple(map(str, index.addresses)), port=index.port)


def simulated_pool_name(type_name: str) -> str:
    """Return the name of the pool that simulated nodes of a type form: `ecs.gn8v.4xlarge` gives `gn8v-4xlarge`."""
    return type_name.removeprefix("ecs.").replace(".", "-")


def simulated_zones(count: int) -> tuple[str, ...]:
    """Return the zones that so many simulated nodes of a type are in, in turn."""
    return _SIMULATED_ZONES[:count]


def pool_taints(pool: NodePoolSettings) -> tuple[Taint, ...]:
    """Return the taints of a pool's nodes: those of the settings, and on GPU nodes the one that keeps others away."""
    own = tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in pool.taints)
    gpu = () if pool.role != "gpu" or any(taint.key == GPU_TAINT.key for taint in own) else (GPU_TAINT,)
    return (*gpu, *own)


def _ack_offer(pool: NodePoolSettings, zones: tuple[str, ...]) -> PoolOffer:
    first = pool.facts[0] if pool.facts else None
    exclusive = pool.eni == "exclusive"
    rdma: RdmaKind = "lingjun" if pool.lingjun else first.rdma if first else "none"
    return PoolOffer(
        name=pool.name,
        role=pool.role,
        instance_types=pool.instance_types,
        node=node_facts(pool.facts),
        zones=zones,
        max_nodes=pool.maximum,
        min_nodes=pool.minimum,
        gpus_per_node=first.gpus if first else None,
        gpu_memory_gib=first.gpu_memory_gib if first else 0,
        shares_per_gpu=shares_per_gpu(pool.gpu.sharing, first),
        sharing=pool.gpu.sharing,
        eni=pool.eni,
        exclusive_pods=min((f.pods("exclusive", rdma=pool.rdma) for f in pool.facts), default=None) if exclusive else 0,
        rdma=rdma if pool.rdma else "none",
        rdma_on_host_network_only=pool.rdma and pool.lingjun is not None and not pool.lingjun.ipv6,
        taints=(*pool_taints(pool), *([_LINGJUN_TAINT] if pool.lingjun else [])),
        terway=True,
        driver_version=pool.driver_version,
        compute_capability=first.gpu.compute_capability if first and first.gpu else None,
    )


def _simulated_offer(group: SimulatedNodes, sharing: Sharing | None) -> PoolOffer:
    facts = instance_type(group.instance_type)
    shared = sharing if facts.gpus else None
    return PoolOffer(
        name=simulated_pool_name(group.instance_type),
        role="gpu" if facts.gpus else "cpu",
        instance_types=(group.instance_type,),
        node=node_facts((facts,)),
        zones=simulated_zones(group.count),
        max_nodes=group.count,
        min_nodes=group.count,
        gpus_per_node=facts.gpus,
        gpu_memory_gib=facts.gpu_memory_gib,
        shares_per_gpu=shares_per_gpu(shared, facts),
        sharing=shared,
        eni="shared",
        exclusive_pods=0,
        rdma="none",
        taints=(SIMULATED_TAINT, GPU_TAINT) if facts.gpus else (SIMULATED_TAINT,),
        terway=False,
        compute_capability=facts.gpu.compute_capability if facts.gpu else None,
    )
