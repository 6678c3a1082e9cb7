"""A whole environment on Alibaba Cloud, from an empty account to nodes that are ready for pods.

Source: AliyunContainerService/terway, docs/terway-trunk.md.

Source: SLS, "AliyunPipelineConfig parameters", 2026-02-04; LoongCollector, docs/cn/plugins, input-container-stdio and
processor-parse-json-native.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.ack_cluster import AckCluster, AckClusterArgs
from infra.alicloud.addon_table import ADDONS, Addon, Environment, config_json, version_of, wants_log_service
from infra.alicloud.addon_versions import installed_versions, never_lower
from infra.alicloud.network import AlicloudNetwork, AlicloudNetworkArgs
from infra.alicloud.node_pools import NodePools, NodePoolsArgs
from infra.alicloud.provider import alicloud_provider
from infra.errors import RefusalError
from infra.manifests import Manifest, resource
from infra.monitoring.logs import JOB_FIELD, LABEL_FIELDS, RUN_FIELD, SERVICE_FIELD
from infra.pod_network_modes import POD_NETWORKING_LABEL
from infra.rdma import TerwayForRdma

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.ack_addons import Stage
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.images import ImageSettings
    from infra.settings.monitoring import LogSettings, MonitoringSettings
    from infra.settings.trunk_networks import PodNetworkingSettings


@dataclass(frozen=True, kw_only=True)
class ClusterAddonsArgs:
    """Arguments of ClusterAddons."""

    settings: AlicloudSettings
    images: ImageSettings
    monitoring: MonitoringSettings
    cluster: AckCluster
    stage: Stage
    """`before_rdma`: what must be there before nodes with RDMA join (the eRDMA controller: nodes that join earlier get
    no RDMA interface); `after_pools`: the others."""
    installed: pulumi.Output[Mapping[str, str]]
    """Versions of the add-ons that the cluster has, by name."""
    depends_on: Sequence[pulumi.Resource] = ()
    """The system pools: the provider waits ten minutes for an add-on, whose pods need a node. Before RDMA also Terway's
    filter of interfaces, or Terway takes the RDMA ones."""


def wanted_addons(environment: Environment, stage: Stage) -> list[Addon]:
    """Return the add-ons of a stage that an environment needs, in the table's order."""
    return [addon for addon in ADDONS if addon.stage == stage and addon.applies_to(environment)]


def addons_of(args: ClusterAddonsArgs) -> list[Addon]:
    """Return the add-ons that a component with these arguments consists of."""
    return wanted_addons(_environment(args), args.stage)


def _environment(args: ClusterAddonsArgs) -> Environment:
    return Environment(alicloud=args.settings, images=args.images, monitoring=args.monitoring)


def addon_inputs(addon: Addon, environment: Environment, installed: pulumi.Output[Mapping[str, str]]) -> dict[str, Any]:
    """Return the inputs of an add-on's resource but the cluster. Its name is its identity, not a label."""
    minimum = version_of(addon, environment)
    return {
        "name": addon.name,
        "version": installed.apply(lambda versions: never_lower(minimum, versions.get(addon.name, ""))),
        "config": config_json(addon, environment),
    }


class ClusterAddons(pulumi.ComponentResource):
    """The add-ons of one stage.

    One that ACK installed with the cluster is taken over, and left where it is when its resource is deleted.
    """

    addons: dict[str, alicloud.cs.KubernetesAddon]
    """Add-ons by name."""

    def __init__(self, name: str, args: ClusterAddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:ClusterAddons", name, None, opts)
        environment = _environment(args)
        self.addons = {
            addon.name: alicloud.cs.KubernetesAddon(
                addon.name,
                cluster_id=args.cluster.cluster_id,
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.depends_on)),
                **addon_inputs(addon, environment, args.installed),
            )
            for addon in addons_of(args)
        }
        if args.stage == "after_pools":
            self._name_what_the_api_does_not_install(args.settings)
        self.register_outputs({"addons": sorted(self.addons)})

    def _name_what_the_api_does_not_install(self, settings: AlicloudSettings) -> None:
        shared = [pool.name for pool in settings.node_pools if pool.gpu.sharing]
        if shared:
            pulumi.log.warn(
                f"The GPUs of {', '.join(shared)} are shared, which requires ACK's cloud-native AI suite"
                " (ack-ai-installer; with isolation mps also ack-mps-control). ACK's API cannot install it: install it"
                " once, on the cluster's page in the console.",
                resource=self,
            )


NAME = "athanor-pods"
"""Name of the configuration and of its logstore."""
_FOR_EVER_DAYS = 3650
_LONGEST_DAYS = 3000
_TAGS = {JOB_FIELD: "job", RUN_FIELD: "run", SERVICE_FIELD: "service"}


@dataclass(frozen=True, kw_only=True)
class LogServiceArgs:
    """Arguments of LogService."""

    settings: LogSettings
    cluster_id: pulumi.Input[str]
    depends_on: Sequence[pulumi.Resource]
    """The add-ons: the collector brings the definition of its configurations."""


def collection_manifest(settings: LogSettings, project: pulumi.Input[str]) -> Manifest:
    """Return the configuration: what all containers print, a line that is a JSON object as its fields.

    Raises:
        RefusalError: the Log Service has no such retention.
    """
    days = settings.retention_days
    if _LONGEST_DAYS < days < _FOR_EVER_DAYS:
        limit = f"the Log Service keeps logs for at most {_LONGEST_DAYS} days or, with {_FOR_EVER_DAYS}, forever"
        raise RefusalError(
            "athanor:monitoring.logs.retention_days", days, limit, f"use {_LONGEST_DAYS} or {_FOR_EVER_DAYS}"
        )
    labels = {field.removeprefix(LABEL_FIELDS): tag for field, tag in _TAGS.items()}
    return {
        "apiVersion": "telemetry.alibabacloud.com/v1alpha1",
        "kind": "ClusterAliyunPipelineConfig",
        "metadata": {"name": NAME},
        "spec": {
            "project": {"name": project},
            "logstores": [{"name": NAME, "ttl": days}],
            "config": {
                "inputs": [
                    {
                        "Type": "input_container_stdio",
                        "IgnoringStdout": False,
                        "IgnoringStderr": False,
                        "ExternalK8sLabelTag": labels,
                    }
                ],
                "processors": [
                    # A line that is not JSON stays as it is.
                    {
                        "Type": "processor_parse_json_native",
                        "SourceKey": "content",
                        "KeepingSourceWhenParseFail": True,
                    }
                ],
                "flushers": [{"Type": "flusher_sls", "Logstore": NAME}],
            },
        },
    }


class LogService(pulumi.ComponentResource):
    """The collection of all pods' logs into the Log Service."""

    def __init__(self, name: str, args: LogServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:LogService", name, None, opts)
        # The add-on makes a project of this name.
        manifest = collection_manifest(args.settings, pulumi.Output.concat("k8s-log-", args.cluster_id))
        resource(NAME, manifest, pulumi.ResourceOptions(parent=self, depends_on=list(args.depends_on)))
        self.register_outputs({"logstore": NAME})


def pod_networking_manifest(
    settings: PodNetworkingSettings,
    vswitch_ids: Sequence[pulumi.Input[str]],
    security_group_ids: Sequence[pulumi.Input[str]],
) -> Manifest:
    """Return a PodNetworking; where the settings name no ids, it has those given."""
    return {
        "apiVersion": "network.alibabacloud.com/v1beta1",
        "kind": "PodNetworking",
        "metadata": {"name": settings.name},
        "spec": {
            "allocationType": {"type": "Elastic"},
            "eniOptions": {"eniType": "Trunk"},
            "selector": {"podSelector": {"matchLabels": {POD_NETWORKING_LABEL: settings.name}}},
            "vSwitchOptions": list(settings.vswitch_ids or vswitch_ids),
            "securityGroupIDs": list(settings.security_group_ids or security_group_ids),
        },
    }


@dataclass(frozen=True, kw_only=True)
class PodNetworkingsArgs:
    """Arguments of PodNetworkings."""

    settings: Sequence[PodNetworkingSettings]
    vswitch_ids: Sequence[pulumi.Input[str]]
    """The environment's vswitches for pods."""
    security_group_ids: Sequence[pulumi.Input[str]]
    """The environment's security groups."""


class PodNetworkings(pulumi.ComponentResource):
    """The PodNetworking resources of a stack; Terway with trunking must run already."""

    networkings: tuple[pulumi.CustomResource, ...]
    """The resources; workloads that use one depend on them."""

    def __init__(self, name: str, args: PodNetworkingsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:PodNetworkings", name, None, opts)
        self.networkings = tuple(
            resource(
                f"pod-networking-{settings.name}",
                pod_networking_manifest(settings, args.vswitch_ids, args.security_group_ids),
                pulumi.ResourceOptions(parent=self),
            )
            for settings in args.settings
        )
        self.register_outputs({"names": [settings.name for settings in args.settings]})


@dataclass(frozen=True, kw_only=True)
class AlicloudEnvironment:
    """The environment that the rest of the program builds on."""

    provider: alicloud.Provider
    network: AlicloudNetwork
    cluster: AckCluster
    nodes: tuple[pulumi.Resource, ...]
    """Dependencies of the platform's own pods, which are created after and deleted before: the pools they run on, and
    the add-ons."""
    pod_networkings: tuple[pulumi.Resource, ...]
    """Dependencies of pods with a network of their own."""


def create_environment(
    settings: AlicloudSettings, images: ImageSettings, monitoring: MonitoringSettings
) -> AlicloudEnvironment:
    """Declare network, cluster, add-ons and node pools, in the order in which they need each other.

    Raises:
        RefusalError: the addresses do not suffice, or there are no credentials to update with.
    """
    provider = alicloud_provider(settings)
    in_cloud = pulumi.ResourceOptions(provider=provider)
    network = AlicloudNetwork(
        "network", AlicloudNetworkArgs(settings=settings, registry_instance=images.acr_instance_id), in_cloud
    )
    cluster = AckCluster("cluster", AckClusterArgs(settings=settings, network=network), in_cloud)

    installed = installed_versions(cluster)

    def addons(name: str, stage: Stage, depends_on: Sequence[pulumi.Resource]) -> tuple[pulumi.Resource, ...]:
        args = ClusterAddonsArgs(
            settings=settings,
            images=images,
            monitoring=monitoring,
            cluster=cluster,
            stage=stage,
            installed=installed,
            depends_on=depends_on,
        )
        return tuple(ClusterAddons(name, args, in_cloud).addons.values()) if addons_of(args) else ()

    def before_rdma(system: Sequence[alicloud.cs.NodePool]) -> tuple[pulumi.Resource, ...]:
        filters = _terway_for_rdma(settings, cluster)
        return (*filters, *addons("addons-before-pools", "before_rdma", (*filters, *system)))

    pools = NodePools(
        "node-pools",
        NodePoolsArgs(
            settings=settings,
            cluster=cluster,
            network=network,
            monitoring=monitoring,
            before_rdma=before_rdma,
        ),
        in_cloud,
    )
    late = addons("addons", "after_pools", pools.system)
    if wants_log_service(monitoring):
        args = LogServiceArgs(settings=monitoring.logs, cluster_id=cluster.cluster_id, depends_on=late)
        LogService("log-service", args, pulumi.ResourceOptions(provider=cluster.provider))
    return AlicloudEnvironment(
        provider=provider,
        network=network,
        cluster=cluster,
        nodes=(*pools.pools.values(), *late),
        pod_networkings=_pod_networkings(settings, network, cluster),
    )


def _terway_for_rdma(settings: AlicloudSettings, cluster: AckCluster) -> tuple[pulumi.Resource, ...]:
    if not any(pool.rdma and not pool.lingjun for pool in settings.node_pools):
        return ()
    return (TerwayForRdma("terway-for-rdma", pulumi.ResourceOptions(provider=cluster.provider)).config,)


def _pod_networkings(
    settings: AlicloudSettings, network: AlicloudNetwork, cluster: AckCluster
) -> tuple[pulumi.Resource, ...]:
    if not settings.pod_networkings:
        return ()
    args = PodNetworkingsArgs(
        settings=settings.pod_networkings,
        vswitch_ids=list(network.pod_vswitch_ids.values()),
        security_group_ids=[network.security_group_id],
    )
    return PodNetworkings("pod-networkings", args, pulumi.ResourceOptions(provider=cluster.provider)).networkings
