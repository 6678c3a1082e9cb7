"""The cluster: private, closed to deletion where it matters, and with credentials that nobody reads in the state."""

from __future__ import annotations

import json
from datetime import date

import pulumi
import pytest

from infra.alicloud import kubernetes_version
from infra.alicloud.ack_cluster import AckCluster, AckClusterArgs
from infra.alicloud.kubernetes_version import default_patch
from infra.errors import RefusalError
from tests.recording_engine import KUBERNETES_PROVIDER, UNKNOWN, Secret, scalars
from tests.tables import each_row
from tests.unit.infra.alicloud.environment import (
    ERDMA_POOL,
    GPU_POOL,
    INSIDE,
    ISSUER,
    KUBECONFIG,
    OFFERED,
    PROVIDER_ARN,
    PUBLIC,
    STASH,
    VERSIONS,
    record_on,
    settings,
    standing_network,
)

CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"
CREDENTIAL = "alicloud:cs/getClusterCredential:getClusterCredential"


def _program(environment):
    cluster = AckCluster("ack", AckClusterArgs(settings=environment, network=standing_network(environment)))
    pulumi.export("issuer", cluster.oidc_issuer_url)
    pulumi.export("arn", cluster.oidc_provider_arn)
    pulumi.export("id", cluster.cluster_id)


def _cluster(environment=None, *, preview=True):
    [cluster] = record_on(_program, environment or settings(), preview=preview).of_type(CLUSTER)
    return cluster


def _addons(environment=None):
    return {addon["name"]: addon for addon in _cluster(environment).inputs["addons"]}


def test_the_cluster_is_private_and_ours_from_birth():
    assert {key: value for key, value in _cluster().inputs.items() if key != "addons"} == {
        "name": "athanor-prod-cluster",
        "version": UNKNOWN,
        "upgradePolicy": {"controlPlaneOnly": True},
        "clusterSpec": "ack.pro.small",
        "vswitchIds": ["vsw-nodei", "vsw-nodej"],
        "podVswitchIds": ["vsw-podi", "vsw-podj"],
        "securityGroupId": "sg-own",
        "serviceCidr": "172.21.0.0/20",
        "proxyMode": "ipvs",
        "newNatGateway": False,
        "slbInternetEnabled": False,
        "enableRrsa": True,
        "skipSetCertificateAuthority": True,
        "controlPlaneLogComponents": ["apiserver", "kcm", "scheduler", "ccm", "controlplane-events"],
        "controlPlaneLogTtl": "30",
        "auditLogConfig": {"enabled": True},
        "maintenanceWindow": {
            "enable": True,
            "maintenanceTime": "2025-01-01T02:00:00.000+08:00",
            "duration": "3h",
            "weeklyPeriod": "Sunday",
        },
        "operationPolicy": {"clusterAutoUpgrade": {"enabled": False}},
        "deletionProtection": False,
        "deleteOptions": [
            {"resourceType": kind, "deleteMode": "delete"}
            for kind in ("SLB", "ALB", "PrivateZone", "SLS_Data", "SLS_ControlPlane")
        ],
        "tags": {"athanor:project": "athanor", "athanor:stack": "prod"},
    }


def test_a_protected_cluster_and_its_logs_stay():
    cluster = _cluster(settings(protected=True))
    assert cluster.protect
    assert cluster.inputs["deletionProtection"] is True
    modes = {option["resourceType"]: option["deleteMode"] for option in cluster.inputs["deleteOptions"]}
    assert {kind for kind, mode in modes.items() if mode == "delete"} == {"SLB", "ALB", "PrivateZone"}
    assert {kind for kind, mode in modes.items() if mode == "retain"} == {"SLS_Data", "SLS_ControlPlane"}


def test_the_settings_decide():
    kubernetes = {
        "public_api_server": True,
        "edition": "ack.pro.xlarge",
        "proxy_mode": "iptables",
        "encryption_key_id": "key-1",
        "control_plane_log_days": 7,
        "auto_upgrade": "patch",
        "maintenance": {"start": "02:30", "hours": 5, "weekdays": ["Monday", "Friday"]},
    }
    inputs = _cluster(settings(kubernetes=kubernetes)).inputs
    expected = {
        "slbInternetEnabled": True,
        "clusterSpec": "ack.pro.xlarge",
        "proxyMode": "iptables",
        "encryptionProviderKey": "key-1",
        "controlPlaneLogTtl": "7",
        "operationPolicy": {"clusterAutoUpgrade": {"enabled": True, "channel": "patch"}},
        "maintenanceWindow": {
            "enable": True,
            "maintenanceTime": "2025-01-01T02:30:00.000+08:00",
            "duration": "5h",
            "weeklyPeriod": "Monday,Friday",
        },
    }
    assert {name: inputs[name] for name in expected} == expected


def test_terway_is_installed_at_creation_with_trunk_interfaces_and_policies():
    addons = _addons()
    config = json.loads(addons["terway-eniip"]["config"])
    assert config == {"ENITrunking": "true", "IPVlan": "false", "NetworkPolicy": "true"}
    assert json.loads(addons["terway-controlplane"]["config"]) == {"ENITrunking": "true"}


def test_what_ack_would_add_by_itself_is_pinned_or_left_out():
    addons = _addons()
    assert addons.pop("nginx-ingress-controller") == {"name": "nginx-ingress-controller", "disabled": True}
    assert all(addon["version"] for addon in addons.values())


def test_no_node_pool_decides_what_the_cluster_is_created_with():
    """Otherwise adding the first GPU pool would be a change that ACK never makes."""
    assert _addons(settings(GPU_POOL, ERDMA_POOL)) == _addons()


def test_an_upgrade_of_an_addon_is_not_a_change_of_the_cluster():
    assert "addons[*].version" in _cluster().ignore_changes


def test_an_upgrade_channel_owns_the_version():
    assert "version" not in _cluster(settings(kubernetes={"version": "1.35"})).ignore_changes
    recording = record_on(_program, settings(kubernetes={"auto_upgrade": "stable"}))
    [cluster] = recording.of_type(CLUSTER)
    assert "version" in cluster.ignore_changes
    [component] = recording.of_type("athanor:infra:AckCluster")
    assert component.inputs == {}


def test_a_new_default_version_upgrades_no_cluster():
    """Earlier releases kept the answer under the name of their default."""
    recording = record_on(_program, settings(), preview=False)
    [stash] = recording.of_type(STASH)
    assert (stash.name, stash.ignore_changes) == ("kubernetes-versions", ("input",))
    assert {alias.rpartition("::")[2] for alias in stash.aliases} == {"kubernetes-1.34"}
    [cluster] = recording.of_type(CLUSTER)
    assert cluster.inputs["version"] == "1.35.7-aliyun.1"
    assert "version" in cluster.ignore_changes
    [component] = recording.of_type("athanor:infra:AckCluster")
    assert component.inputs == {}


@each_row(
    ("offered", "patch"),
    [
        (OFFERED, "1.35.7-aliyun.1"),
        (["1.34.10-aliyun.1", "1.34.3-aliyun.1"], "1.34.10-aliyun.1"),
        (["1.38.0-aliyun.1", "1.37.10-aliyun.1", "1.37.9-aliyun.1"], "1.37.10-aliyun.1"),
    ],
)
def test_a_version_that_nobody_chose_depends_on_no_minor(offered, patch):
    assert default_patch(offered) == patch


@each_row(("minor", "patch"), [("1.34", "1.34.10-aliyun.1"), ("1.35", "1.35.7-aliyun.1")])
def test_a_minor_becomes_the_patch_that_ack_offers_and_stays_it_until_there_is_another_minor(minor, patch):
    recording = record_on(_program, settings(kubernetes={"version": minor}), preview=False)
    [stash] = recording.of_type(STASH)
    assert (stash.name, stash.inputs, stash.ignore_changes) == (f"kubernetes-{minor}", {"input": OFFERED}, ("input",))
    [asked] = [invoke for invoke in recording.invokes if invoke.token == VERSIONS]
    assert asked.args == {"clusterType": "ManagedKubernetes", "profile": "Default"}
    [cluster] = recording.of_type(CLUSTER)
    assert cluster.inputs["version"] == patch


def test_a_pinned_patch_is_taken_as_it_is_and_nobody_is_asked():
    recording = record_on(_program, settings(kubernetes={"version": "1.34.9-aliyun.1"}), preview=False)
    assert recording.of_type(CLUSTER)[0].inputs["version"] == "1.34.9-aliyun.1"
    assert recording.of_type(STASH) == []
    assert VERSIONS not in {invoke.token for invoke in recording.invokes}


def _hook(name, environment):
    return record_on(_program, environment).hooks[name]


def _creation(**inputs):
    args = pulumi.ResourceHookArgs(urn="urn", id="", name="a", type="a")
    args.new_inputs = inputs
    return args


def test_a_minor_that_ack_no_longer_offers_is_refused_before_it_is_kept():
    hook = _hook("kubernetes-1.34-offered", settings(kubernetes={"version": "1.34"}))
    assert hook.opts.on_dry_run
    hook(_creation(input=OFFERED))
    with pytest.raises(
        RefusalError, match=r"version = '1\.34': ACK offers 1\.36\.2-aliyun\.1, 1\.35\.7-aliyun\.1 in this"
    ):
        hook(_creation(input=OFFERED[:2]))


def test_a_preview_says_that_it_did_not_ask_for_the_patch(monkeypatch):
    said = []
    monkeypatch.setattr(pulumi.log, "info", said.append)
    _hook("kubernetes-versions-offered", settings())(_creation(input=pulumi.UNKNOWN))
    assert said == [
        "alicloud.kubernetes.version = '1.35': a preview does not query ACK for the patch it offers; `pulumi up` does."
    ]


@each_row(("version", "refused"), [("1.33", True), ("1.32.7-aliyun.1", True), ("1.34", False)])
def test_a_cluster_of_a_retired_minor_is_not_created(version, refused):
    hook = _hook("cluster-creatable", settings(kubernetes={"version": version}))
    assert hook.opts.on_dry_run
    if not refused:
        hook(_creation())
        return
    with pytest.raises(RefusalError, match=r"ACK creates clusters only with Kubernetes 1\.34 or newer"):
        hook(_creation())


def test_a_version_out_of_support_or_nearly_so_is_warned_of(monkeypatch):
    said = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)

    def create(version, today):
        monkeypatch.setattr(kubernetes_version, "_today", lambda: today)
        _hook("cluster-creatable", settings(kubernetes={"version": version}))(_creation())

    for version in ("1.35", "1.36.2-aliyun.1"):
        create(version, date(2026, 11, 27))
    assert said == []
    create("1.34", date(2026, 9, 1))
    create("1.35", date(2026, 12, 1))
    create("1.36", date(2027, 3, 15))
    assert [text.partition("ACK's support of ")[2] for text in said] == [
        "1.34 ends on 2026-09-30. Fix: set 1.35",
        "1.35 ends on 2027-02-28. Fix: set 1.36",
        "1.36 ends on 2027-05-30. Fix: update athanor: this one knows no newer minor",
    ]


def test_a_key_encrypts_even_where_encryption_was_turned_off():
    """The provider ignores a key alone there."""
    with_key = _cluster(settings(kubernetes={"encryption_key_id": "key-1"})).inputs
    assert (with_key["encryptionProviderKey"], with_key["disableEncryption"]) == ("key-1", False)
    assert _cluster().inputs.keys() & {"encryptionProviderKey", "disableEncryption"} == set()


@each_row(
    ("kubernetes", "mode", "kept"),
    [
        ({}, "ipvs", True),
        ({"version": "1.36"}, "ipvs", True),
        ({"version": "1.35", "proxy_mode": "ipvs"}, "ipvs", False),
        ({"version": "1.36.2-aliyun.1", "proxy_mode": "nftables"}, "nftables", False),
    ],
)
def test_no_default_changes_the_proxy_mode_of_an_existing_cluster(kubernetes, mode, kept):
    """It can never be changed: were it not ignored, another default would replace the cluster."""
    cluster = _cluster(settings(kubernetes=kubernetes))
    assert cluster.inputs["proxyMode"] == mode
    assert ("proxyMode" in cluster.ignore_changes) is kept


def test_create_only_inputs_are_guarded_in_previews():
    recording = record_on(_program, settings())
    [cluster] = recording.of_type(CLUSTER)
    [name] = cluster.before_update
    hook = recording.hooks[name]
    assert hook.opts.on_dry_run
    args = pulumi.ResourceHookArgs(urn=cluster.urn, id="c1", name="cluster", type=CLUSTER)
    args.old_inputs, args.new_inputs = cluster.inputs, {**cluster.inputs, "slbInternetEnabled": True}
    with pytest.raises(RefusalError, match="public_api_server"):
        hook(args)
    args.new_inputs = {**cluster.inputs, "tags": {}}
    hook(args)


@each_row(("public", "kubeconfig"), [(False, KUBECONFIG.replace(PUBLIC, INSIDE)), (True, KUBECONFIG)])
def test_the_provider_is_found_again_whatever_its_credentials(public, kubeconfig):
    """An unknown or new kubeconfig replaces every object of the cluster, if nothing else says which cluster it is."""
    recording = record_on(_program, settings(kubernetes={"public_api_server": public}), preview=False)
    [provider] = recording.of_type(KUBERNETES_PROVIDER)
    assert provider.inputs["clusterIdentifier"] == recording.exports["id"] == "cluster-id"
    assert provider.inputs["kubeconfig"] == Secret(kubeconfig)
    assert json.loads(provider.inputs["kubeClientSettings"])["qps"] >= 100


def test_the_credentials_are_permanent_and_appear_nowhere_else():
    recording = record_on(_program, settings(), preview=False)
    [credential] = [invoke for invoke in recording.invokes if invoke.token == CREDENTIAL]
    assert (credential.token, credential.args) == (CREDENTIAL, {"clusterId": "cluster-id"})
    for resource in recording.resources.values():
        for path, value in scalars(resource.inputs):
            assert value != KUBECONFIG, f"{resource.name}: {path}"


def test_a_preview_of_a_new_cluster_asks_the_cloud_nothing():
    recording = record_on(_program, settings())
    assert recording.invokes == []
    [provider] = recording.of_type(KUBERNETES_PROVIDER)
    assert provider.inputs["clusterIdentifier"] is UNKNOWN


def test_roles_can_trust_the_clusters_service_accounts():
    exports = record_on(_program, settings(), preview=False).exports
    assert (exports["issuer"], exports["arn"]) == (ISSUER, PROVIDER_ARN)


def test_the_component_says_what_it_is():
    recording = record_on(_program, settings(), preview=False)
    [component] = recording.of_type("athanor:infra:AckCluster")
    assert component.outputs == {"cluster_id": "cluster-id"}
    assert component.inputs == {}
    assert {r.parent for r in recording.resources.values() if r.custom} == {component.urn}
