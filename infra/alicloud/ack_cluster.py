"""The ACK Pro managed cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes
import yaml

from infra.alicloud.addon_table import Environment, birth_addons
from infra.alicloud.kubernetes_version import creatable_hook, kubernetes_version, version_order
from infra.alicloud.names import resource_name, tags
from infra.alicloud.provider import of_created
from infra.cluster import CLIENT_SETTINGS
from infra.create_only import CreateOnly, given_and_changed, given_and_not_only_longer, guard
from infra.settings.alicloud_kubernetes import minor_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.alicloud.network import AlicloudNetwork
    from infra.settings.alicloud import AlicloudSettings
    from infra.settings.alicloud_kubernetes import KubernetesSettings

_LOGGED = ["apiserver", "kcm", "scheduler", "ccm", "controlplane-events"]
_ONLY_AT_BIRTH = "ACK sets it only when it creates a cluster"
_ONE_MINOR = "ACK upgrades one minor version at a time"
_NEXT_MINOR = "set the next minor version, run `pulumi up`, upgrade the node pools, and then continue"


def _without_versions(addons: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Later versions are the business of the add-on resources; the cluster ignores changes of them (see below)."""
    return [{key: value for key, value in addon.items() if key != "version"} for addon in addons or []]


def _is_lower(old: object, new: object) -> bool:
    """Whether a version is lower than the one before; in a preview, that of a minor is not known yet."""
    return isinstance(old, str) and isinstance(new, str) and version_order(new) < version_order(old)


def _skips_a_minor(old: object, new: object) -> bool:
    return isinstance(old, str) and isinstance(new, str) and minor_of(new) > minor_of(old) + 1


CREATE_ONLY = (
    CreateOnly(
        input="slbInternetEnabled",
        setting="alicloud.kubernetes.public_api_server",
        limit=_ONLY_AT_BIRTH,
        fix="restore it; to open or close the API server, bind or unbind an EIP on the cluster's page in the console",
        forbids=given_and_changed,
    ),
    CreateOnly(
        input="clusterSpec",
        setting="alicloud.kubernetes.edition",
        limit="the provider does not change it",
        fix="restore it, or change it on the cluster's page in the console, run `pulumi refresh`, then set it here",
    ),
    CreateOnly(
        input="addons",
        setting="add-ons at creation (infra/alicloud/addon_table.py)",
        limit=_ONLY_AT_BIRTH,
        fix="restore at_birth, DISABLED_AT_BIRTH and the configuration of such add-ons; install others after creation",
        forbids=lambda old, new: old is not None and _without_versions(old) != _without_versions(new),
    ),
    CreateOnly(
        input="newNatGateway",
        setting="new_nat_gateway (infra/alicloud/ack_cluster.py)",
        limit=_ONLY_AT_BIRTH,
        fix="restore it; the network owns the NAT gateway",
        forbids=given_and_changed,
    ),
    CreateOnly(
        input="encryptionProviderKey",
        setting="alicloud.kubernetes.encryption_key_id",
        limit="removing it would change nothing: Secrets stay encrypted",
        fix="restore it, or set another key",
        forbids=lambda old, new: bool(old) and not new,
    ),
    CreateOnly(
        input="version",
        setting="alicloud.kubernetes.version",
        limit="a control plane is never downgraded",
        fix="restore it, or set a higher version. If the cluster was upgraded in the console, set the patch it has now",
        forbids=_is_lower,
    ),
    CreateOnly(
        input="version",
        setting="alicloud.kubernetes.version",
        limit=_ONE_MINOR,
        fix=_NEXT_MINOR,
        forbids=_skips_a_minor,
    ),
)
KUBERNETES_MINOR = (
    CreateOnly(
        input="kubernetes",
        setting="alicloud.kubernetes.version",
        limit="a control plane is never downgraded",
        fix="restore it, or set a higher version",
        forbids=_is_lower,
    ),
    CreateOnly(
        input="kubernetes",
        setting="alicloud.kubernetes.version",
        limit=_ONE_MINOR,
        fix=_NEXT_MINOR,
        forbids=_skips_a_minor,
    ),
)
"""Input of the component, which knows the minor in a preview; the patch that belongs to it is known at `up`."""


def pod_vswitches(settings: AlicloudSettings) -> CreateOnly:
    """Return the guard of the pod vswitches: of a VPC of ours the network refuses another cidr or zone, before this."""
    existing = settings.network.existing is not None
    return CreateOnly(
        input="podVswitchIds",
        setting="alicloud.network.existing.pod_vswitch_ids" if existing else "pod vswitches of the cluster",
        limit="the provider sends pod vswitches only when it creates a cluster",
        fix=f"restore {'them' if existing else 'those of the VPC'}, or create another environment",
        forbids=given_and_not_only_longer,
    )


def advise_of_new_zones(args: pulumi.ResourceHookArgs) -> None:
    """Say what is left to do by hand where zones were added: only Terway's own ConfigMap takes pod vswitches later.

    Sources: ACK, "Modify the vSwitch for Pods" (7 March 2026), limits; Terway, docs/exclusive-eni-node-pool.md.
    """
    before: list[str] = (args.old_inputs or {}).get("podVswitchIds") or []
    after: list[str] = (args.new_inputs or {}).get("podVswitchIds") or []
    added = after[len(before) :] if before else []
    if added:
        pulumi.log.warn(
            f"New pod vswitches: {', '.join(added)}. Add them to the ConfigMap kube-system/eni-config"
            " (docs/alicloud.md, Zones). Until then pods in their zones take addresses of the node vswitch; on pools"
            " with eni: exclusive they do not start."
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
        # Without it ACK may upgrade the worker nodes, too, with jobs on them (UpgradeClusterRequest, master_only).
        "upgrade_policy": {"control_plane_only": True},
        "cluster_spec": chosen.edition,
        "service_cidr": str(settings.network.service_cidr),
        "proxy_mode": chosen.new_proxy_mode,
        "addons": birth_addons(Environment(alicloud=settings)),
        "new_nat_gateway": False,
        "slb_internet_enabled": chosen.public_api_server,
        "enable_rrsa": True,
        **_encryption(chosen.encryption_key_id),
        "control_plane_log_components": _LOGGED,
        "control_plane_log_ttl": str(chosen.control_plane_log_days),
        "audit_log_config": {"enabled": True},
        "maintenance_window": {
            "enable": True,
            # With the offset that the provider's documentation shows: no document says in which zone ACK counts days.
            "maintenance_time": f"2025-01-01T{chosen.maintenance.start}:00.000+08:00",
            "duration": f"{chosen.maintenance.hours}h",
            "weekly_period": ",".join(chosen.maintenance.weekdays),
        },
        "operation_policy": {"cluster_auto_upgrade": _auto_upgrade(chosen.auto_upgrade)},
        "deletion_protection": settings.protected,
        "delete_options": delete_options(settings),
        # Otherwise the client key of the cluster's administrator is stored in the state.
        "skip_set_certificate_authority": True,
        "tags": tags(settings),
    }


def _encryption(key_id: str | None) -> dict[str, Any]:
    # Where encryption was turned off, such as in the console, the provider ignores a key alone, without a word
    # (kmsEncryptionDiffSuppressFunc in resource_alicloud_cs_managed_kubernetes.go of 1.285.0).
    return {"encryption_provider_key": key_id, "disable_encryption": False} if key_id else {}


def delete_options(settings: AlicloudSettings) -> list[dict[str, str]]:
    """Return the resources to delete with the cluster: all that keep costing money, but no logs if protected."""
    logs = "retain" if settings.protected else "delete"
    modes = {"SLB": "delete", "ALB": "delete", "PrivateZone": "delete", "SLS_Data": logs, "SLS_ControlPlane": logs}
    return [{"resource_type": kind, "delete_mode": mode} for kind, mode in modes.items()]


def _auto_upgrade(channel: str) -> Mapping[str, Any]:
    return {"enabled": False} if channel == "none" else {"enabled": True, "channel": channel}


def _ignored(chosen: KubernetesSettings) -> list[str]:
    # The add-on resources change versions later; an upgrade channel changes the cluster's.
    # The control plane restarts when its vswitches change: it stays in the zones that it was created in.
    ignored = ["addons[*].version", "vswitchIds"]
    if chosen.auto_upgrade != "none" or chosen.version is None:
        # A channel owns the version; that of new clusters upgrades no existing one.
        ignored.append("version")
    if chosen.proxy_mode is None:
        # Another default must not replace the cluster.
        ignored.append("proxyMode")
    return ignored


def _cluster_hooks(settings: AlicloudSettings) -> pulumi.ResourceHookBinding:
    hooks = guard("cluster-create-only", [pod_vswitches(settings), *CREATE_ONLY])
    hooks.before_create = [creatable_hook(settings.kubernetes)]
    hooks.after_update = [pulumi.ResourceHook("cluster-new-zones", advise_of_new_zones)]
    return hooks


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
        chosen = args.settings.kubernetes
        # A channel of automatic upgrades owns the version, whatever the settings say.
        chooses = chosen.version is not None and chosen.auto_upgrade == "none"
        fixed = {"kubernetes": f"1.{chosen.minor}"} if chooses else {}
        own = pulumi.ResourceOptions(hooks=guard(f"{name}-kubernetes-version", KUBERNETES_MINOR))
        super().__init__("athanor:infra:AckCluster", name, fixed, pulumi.ResourceOptions.merge(opts, own))
        self.resource = self._cluster(args)
        self.cluster_id = self.resource.id
        metadata = of_created(self.resource, self.resource.rrsa_metadata)
        self.oidc_issuer_url = metadata.rrsa_oidc_issuer_url
        self.oidc_provider_arn = metadata.ram_oidc_provider_arn
        self.provider = self._kubernetes(public=args.settings.kubernetes.public_api_server)
        self.register_outputs({"cluster_id": self.cluster_id})

    def _cluster(self, args: AckClusterArgs) -> alicloud.cs.ManagedKubernetes:
        settings, network = args.settings, args.network
        return alicloud.cs.ManagedKubernetes(
            "cluster",
            version=kubernetes_version(settings.kubernetes, self),
            vswitch_ids=[network.node_vswitch_ids[zone] for zone in settings.zones],
            pod_vswitch_ids=[network.pod_vswitch_ids[zone] for zone in settings.zones],
            security_group_id=network.security_group_id,
            opts=pulumi.ResourceOptions(
                parent=self,
                # ACK checks on creation that the vswitches reach the internet.
                depends_on=list(network.ready),
                protect=settings.protected,
                ignore_changes=_ignored(settings.kubernetes),
                hooks=_cluster_hooks(settings),
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
            inside = of_created(self.resource, self.resource.connections).api_server_intranet
            kubeconfig = pulumi.Output.all(kubeconfig, inside).apply(lambda known: at_address(*known))
        return kubernetes.Provider(
            "kubernetes",
            kubeconfig=pulumi.Output.secret(kubeconfig),
            # Without it new credentials, or ones not yet known, would replace every object of the cluster.
            cluster_identifier=self.cluster_id,
            kube_client_settings=CLIENT_SETTINGS,
            opts=pulumi.ResourceOptions(parent=self),
        )
