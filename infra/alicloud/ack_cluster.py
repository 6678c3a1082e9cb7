"""The ACK Pro managed cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes
import yaml

from infra.alicloud.addon_table import Environment, birth_addons
from infra.alicloud.create_only import CreateOnly, guard
from infra.alicloud.names import resource_name, tags
from infra.cluster import CLIENT_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.alicloud.network import AlicloudNetwork
    from infra.settings.alicloud import AlicloudSettings

_LOGGED = ["apiserver", "kcm", "scheduler", "ccm", "controlplane-events"]
_ONLY_AT_BIRTH = "ACK sets it only when it makes a cluster"


def _without_versions(addons: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Later versions are the business of the add-on resources; the cluster ignores changes of them (see below)."""
    return [{key: value for key, value in addon.items() if key != "version"} for addon in addons or []]


def _version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.replace("-aliyun", "").split("."))


CREATE_ONLY = (
    CreateOnly(
        input="podVswitchIds",
        setting="alicloud.zones",
        limit="ACK takes pod vswitches only when it makes a cluster",
        fix="restore the zones (or network.existing.pod_vswitch_ids), and make another environment for other zones",
    ),
    CreateOnly(
        input="slbInternetEnabled",
        setting="alicloud.kubernetes.public_api_server",
        limit=_ONLY_AT_BIRTH,
        fix="restore it; to open or close the API server, bind or unbind an EIP on the cluster's page in the console",
    ),
    CreateOnly(
        input="clusterSpec",
        setting="alicloud.kubernetes.edition",
        limit="the provider does not change it",
        fix="restore it, or change it on the cluster's page in the console, run `pulumi refresh`, then set it here",
    ),
    CreateOnly(
        input="addons",
        setting="add-ons at birth (infra/alicloud/addon_table.py)",
        limit=_ONLY_AT_BIRTH,
        fix="restore at_birth, DISABLED_AT_BIRTH and the configuration of such add-ons; install others after birth",
        forbids=lambda old, new: _without_versions(old) != _without_versions(new),
    ),
    CreateOnly(
        input="newNatGateway",
        setting="new_nat_gateway (infra/alicloud/ack_cluster.py)",
        limit=_ONLY_AT_BIRTH,
        fix="restore it; the network owns the NAT gateway",
    ),
    CreateOnly(
        input="encryptionProviderKey",
        setting="alicloud.kubernetes.encryption_key_id",
        limit="Secrets that were encrypted stay so",
        fix="restore it, or name another key",
        forbids=lambda old, new: bool(old) and not new,
    ),
    CreateOnly(
        input="version",
        setting="alicloud.kubernetes.version",
        limit="a control plane is never downgraded",
        fix="restore it, or name a higher version",
        forbids=lambda old, new: bool(old) and bool(new) and _version(new) < _version(old),
    ),
)


@dataclass(frozen=True, kw_only=True)
class AckClusterArgs:
    """Arguments of AckCluster."""

    settings: AlicloudSettings
    network: AlicloudNetwork


def cluster_inputs(settings: AlicloudSettings) -> dict[str, Any]:
    """Return the inputs of the cluster that do not come from another resource."""
    chosen = settings.kubernetes
    return {
        "name": resource_name("cluster"),
        "version": chosen.version,
        "cluster_spec": chosen.edition,
        "service_cidr": str(settings.network.service_cidr),
        "proxy_mode": chosen.proxy_mode,
        "addons": birth_addons(Environment(alicloud=settings)),
        "new_nat_gateway": False,
        "slb_internet_enabled": chosen.public_api_server,
        "enable_rrsa": True,
        "encryption_provider_key": chosen.encryption_key_id,
        "control_plane_log_components": _LOGGED,
        "control_plane_log_ttl": str(chosen.control_plane_log_days),
        "audit_log_config": {"enabled": True},
        "maintenance_window": {
            "enable": True,
            "maintenance_time": f"2025-01-01T{chosen.maintenance.start}:00.000+00:00",
            "duration": f"{chosen.maintenance.hours}h",
            "weekly_period": ",".join(chosen.maintenance.weekdays),
        },
        "operation_policy": {"cluster_auto_upgrade": _auto_upgrade(chosen.auto_upgrade)},
        "deletion_protection": settings.protected,
        "delete_options": delete_options(settings),
        # Otherwise the client key of the cluster's administrator lies in the state.
        "skip_set_certificate_authority": True,
        "tags": tags(settings),
    }


def delete_options(settings: AlicloudSettings) -> list[dict[str, str]]:
    """Return what goes with the cluster: everything that would go on costing money; of a protected one, no logs."""
    logs = "retain" if settings.protected else "delete"
    modes = {"SLB": "delete", "ALB": "delete", "PrivateZone": "delete", "SLS_Data": logs, "SLS_ControlPlane": logs}
    return [{"resource_type": kind, "delete_mode": mode} for kind, mode in modes.items()]


def _auto_upgrade(channel: str) -> Mapping[str, Any]:
    return {"enabled": False} if channel == "none" else {"enabled": True, "channel": channel}


def at_address(kubeconfig: str, server: str) -> str:
    """Return a kubeconfig whose clusters are reached at another address; the rest of it stays."""
    content = yaml.safe_load(kubeconfig)
    for entry in content["clusters"]:
        entry["cluster"]["server"] = server
    return yaml.safe_dump(content, sort_keys=False)


class AckCluster(pulumi.ComponentResource):
    """An ACK Pro managed cluster and the Kubernetes provider that reaches it."""

    cluster_id: pulumi.Output[str]
    provider: kubernetes.Provider
    """Provider for everything in the cluster, with the administrator's permanent credentials."""
    oidc_issuer_url: pulumi.Output[str]
    """Issuer of the service accounts' tokens, for the trust policies of RAM roles."""
    oidc_provider_arn: pulumi.Output[str]
    """RAM's identity provider for that issuer."""
    resource: alicloud.cs.ManagedKubernetes

    def __init__(self, name: str, args: AckClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:AckCluster", name, None, opts)
        self.resource = self._cluster(args)
        self.cluster_id = self.resource.id
        metadata = self.resource.rrsa_metadata
        self.oidc_issuer_url = metadata.rrsa_oidc_issuer_url
        self.oidc_provider_arn = metadata.ram_oidc_provider_arn
        self.provider = self._kubernetes(public=args.settings.kubernetes.public_api_server)
        self.register_outputs({"cluster_id": self.cluster_id})

    def _cluster(self, args: AckClusterArgs) -> alicloud.cs.ManagedKubernetes:
        settings, network = args.settings, args.network
        # The add-on resources change versions later; an upgrade channel changes the cluster's.
        ignored = ["addons[*].version", *([] if settings.kubernetes.auto_upgrade == "none" else ["version"])]
        return alicloud.cs.ManagedKubernetes(
            "cluster",
            vswitch_ids=[network.node_vswitch_ids[zone] for zone in settings.zones],
            pod_vswitch_ids=[network.pod_vswitch_ids[zone] for zone in settings.zones],
            security_group_id=network.security_group_id,
            opts=pulumi.ResourceOptions(
                parent=self,
                # ACK checks on creation that the vswitches reach the internet.
                depends_on=list(network.ready),
                protect=settings.protected,
                ignore_changes=ignored,
                hooks=guard("cluster-create-only", CREATE_ONLY),
            ),
            **cluster_inputs(settings),
        )

    def _kubernetes(self, *, public: bool) -> kubernetes.Provider:
        # Temporary credentials would be new ones in every update, and each a change to look at.
        credential = alicloud.cs.get_cluster_credential_output(
            cluster_id=self.cluster_id, opts=pulumi.InvokeOutputOptions(parent=self)
        )
        kubeconfig = credential.kube_config
        if not public:
            # The provider always asks for the credentials of the public address, which such a cluster does not have.
            inside = self.resource.connections.api_server_intranet
            kubeconfig = pulumi.Output.all(kubeconfig, inside).apply(lambda known: at_address(*known))
        return kubernetes.Provider(
            "kubernetes",
            kubeconfig=pulumi.Output.secret(kubeconfig),
            # Without it new credentials, or ones not yet known, would replace every object of the cluster.
            cluster_identifier=self.cluster_id,
            kube_client_settings=CLIENT_SETTINGS,
            opts=pulumi.ResourceOptions(parent=self),
        )
