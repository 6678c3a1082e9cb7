"""Add-ons: one table, every version pinned, each there only where something needs it."""

from __future__ import annotations

import json
import re

import pulumi_alicloud as alicloud
import pytest

from infra.alicloud.ack_cluster import AckCluster, AckClusterArgs
from infra.alicloud.addon_table import ADDONS, DISABLED_AT_BIRTH, Environment, birth_addons, config_json
from infra.alicloud.addon_versions import addon_order, installed_versions, never_lower
from infra.alicloud.environment import ClusterAddons, ClusterAddonsArgs
from infra.errors import RefusalError
from infra.settings.images import ImageSettings
from infra.settings.monitoring import LogSettings, MonitoringSettings
from infra.settings.parse import parse_settings
from tests.recording_engine import UNKNOWN
from tests.tables import each_row
from tests.unit.infra.alicloud.environment import ADDONS as INSTALLED
from tests.unit.infra.alicloud.environment import (
    ANSWERS,
    ERDMA_POOL,
    GPU_POOL,
    LINGJUN_POOL,
    SYSTEM_POOL,
    ZONES,
    pool,
    record_on,
    settings,
    standing_network,
)

ADDON = "alicloud:cs/kubernetesAddon:KubernetesAddon"
EVERYWHERE = {
    "terway-eniip",
    "terway-controlplane",
    "coredns",
    "metrics-server",
    "csi-plugin",
    "managed-csiprovisioner",
    "ack-node-problem-detector",
    "ack-pod-identity-webhook",
}
NO_MONITORING = MonitoringSettings(kind="none")
TABLE = {addon.name: addon for addon in ADDONS}


def _program(images, stage, monitoring):
    def program(environment):
        cluster = AckCluster("ack", AckClusterArgs(settings=environment, network=standing_network(environment)))
        before = alicloud.ecs.EcsDeploymentSet("before")
        args = ClusterAddonsArgs(
            settings=environment,
            images=images,
            monitoring=monitoring,
            cluster=cluster,
            stage=stage,
            installed=installed_versions(cluster),
            depends_on=[before],
        )
        ClusterAddons("addons", args)

    return program


def _addons(environment, stage="after_pools", images=None, *, monitoring=NO_MONITORING, preview=True, installed=None):
    answer = [{"name": name, "currentVersion": version} for name, version in (installed or {}).items()]
    answers = {**ANSWERS, INSTALLED: {"addons": answer}}
    program = _program(images or ImageSettings(), stage, monitoring)
    recording = record_on(program, environment, preview=preview, answers=answers)
    return {addon.inputs["name"]: addon for addon in recording.of_type(ADDON)}


def _all_features():
    return settings(GPU_POOL, ERDMA_POOL, LINGJUN_POOL)


def test_every_version_is_pinned():
    for addon in ADDONS:
        assert re.fullmatch(r"v?\d+(\.\d+)+(-([0-9a-f]+-)?aliyun)?", addon.version), addon.name
        assert addon.source, addon.name
        assert addon.why, addon.name


@each_row("stage", ["before_rdma", "after_pools"])
def test_nothing_installs_what_ack_likes(stage):
    environment = _all_features()
    for name, addon in _addons(environment, stage, ImageSettings(credential_helper=True), preview=False).items():
        assert addon.inputs["version"] == TABLE[name].version
    for entry in birth_addons(Environment(alicloud=environment)):
        assert entry.get("version") == (TABLE[entry["name"]].version if not entry.get("disabled") else None)


def test_names_are_once_in_the_table():
    assert len(TABLE) == len(ADDONS)
    assert not set(DISABLED_AT_BIRTH) & set(TABLE)


@each_row(
    "pair",
    [("terway-eniip", "terway-controlplane"), ("csi-plugin", "managed-csiprovisioner")],
    ids=lambda pair: pair[0],
)
def test_what_ack_wants_at_one_version_is(pair):
    assert TABLE[pair[0]].version == TABLE[pair[1]].version


@each_row(
    ("pools", "more"),
    [
        ((), set()),
        ((GPU_POOL,), {"ack-nvidia-device-plugin"}),
        ((ERDMA_POOL,), {"ack-nvidia-device-plugin"}),
        ((LINGJUN_POOL,), {"ack-nvidia-device-plugin", "ack-rdma-device-plugin"}),
    ],
    ids=["cpu", "gpu", "erdma", "lingjun"],
)
def test_addons_are_there_where_something_needs_them(pools, more):
    assert set(_addons(settings(*pools))) == EVERYWHERE | more


@each_row(("kind", "more"), [("operator", set()), ("managed", {"arms-prometheus"})])
def test_the_managed_prometheus_is_there_when_asked_for(kind, more):
    """Its node exporter would take the same port of every node as ours."""
    addons = _addons(settings(), monitoring=MonitoringSettings(kind=kind))
    assert set(addons) == EVERYWHERE | more
    assert [json.loads(addons[name].inputs["config"]) for name in more] == [{"prometheusMode": "default"} for _ in more]


@each_row(
    ("kind", "logs", "there"),
    [("operator", "sls", True), ("managed", "sls", True), ("operator", "victoria_logs", False), ("none", "sls", False)],
)
def test_the_log_services_collector_is_there_when_asked_for(kind, logs, there):
    addons = _addons(settings(), monitoring=MonitoringSettings(kind=kind, logs=LogSettings(kind=logs)))
    assert ("loongcollector" in addons) is there
    if there:
        assert json.loads(addons["loongcollector"].inputs["config"]) == {"IngressDashboardEnabled": "false"}


@each_row(
    ("pools", "expected"),
    [((), set()), ((GPU_POOL,), set()), ((ERDMA_POOL,), {"ack-erdma-controller"}), ((LINGJUN_POOL,), set())],
    ids=["cpu", "gpu", "erdma", "lingjun"],
)
def test_only_the_erdma_controller_comes_before_its_nodes(pools, expected):
    assert set(_addons(settings(*pools), "before_rdma")) == expected


def test_the_erdma_controller_waits_for_terways_filter_and_drives_nccl():
    addon = _addons(settings(ERDMA_POOL), "before_rdma")["ack-erdma-controller"]
    assert json.loads(addon.inputs["config"]) == {"agent": {"preferDriver": "ofed", "allocateAllDevices": True}}
    assert any(urn.endswith("::before") for urn in addon.depends_on)


def test_what_runs_on_nodes_waits_for_them():
    for addon in _addons(settings(GPU_POOL)).values():
        assert any(urn.endswith("::before") for urn in addon.depends_on), addon.name


@each_row(
    ("images", "config"),
    [
        ({}, {}),
        ({"credential_namespaces": ("athanor", "monitoring")}, {"watchNamespace": "athanor,monitoring"}),
        ({"acr_instance_id": "cri-1"}, {"AcrInstanceInfo": [{"instanceId": "cri-1", "regionId": "cn-hangzhou"}]}),
    ],
)
def test_the_credential_helper_is_there_when_asked_for(images, config):
    name = "managed-aliyun-acr-credential-helper"
    assert name not in _addons(settings())
    addon = _addons(settings(), images=ImageSettings(credential_helper=True, **images))[name]
    assert json.loads(addon.inputs["config"]) == {"serviceAccount": "*", "watchNamespace": "all", **config}


def test_an_empty_configuration_is_left_to_ack():
    assert "config" not in _addons(settings())["coredns"].inputs


def test_configurations_are_written_as_the_provider_reads_them_back():
    """Otherwise a refresh shows a change of nothing but the order of keys."""
    for addon in ADDONS:
        text = config_json(addon, Environment(alicloud=settings(), images=ImageSettings(credential_helper=True)))
        if text:
            assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_the_settings_can_name_another_version():
    environment = settings(kubernetes={"addon_versions": {"coredns": "v1.12.1.4"}})
    assert _addons(environment, preview=False)["coredns"].inputs["version"] == "v1.12.1.4"
    [born] = [a for a in birth_addons(Environment(alicloud=environment)) if a["name"] == "coredns"]
    assert born["version"] == "v1.12.1.4"


@each_row(
    ("installed", "declared"),
    [
        ("v1.12.1.4", "v1.12.1.4"),
        ("v1.13.0", "v1.13.0"),
        ("v1.12.1.2", "v1.12.1.3"),
        ("v1.9.3.10-7dfca203-aliyun", "v1.12.1.3"),
        ("", "v1.12.1.3"),
    ],
)
def test_no_addon_goes_back(installed, declared):
    """The provider would "upgrade" one that ACK or the console had upgraded, down to the version in the table."""
    addons = _addons(settings(), preview=False, installed={"coredns": installed})
    assert addons["coredns"].inputs["version"] == declared
    assert addons["csi-plugin"].inputs["version"] == TABLE["csi-plugin"].version


def test_a_minimum_of_the_settings_is_one_too():
    environment = settings(kubernetes={"addon_versions": {"coredns": "v1.12.1.4"}})
    addons = _addons(environment, preview=False, installed={"coredns": "v1.13.0"})
    assert addons["coredns"].inputs["version"] == "v1.13.0"


def test_a_preview_of_a_new_cluster_asks_for_no_addons():
    assert _addons(settings())["coredns"].inputs["version"] is UNKNOWN


def test_versions_are_compared_by_the_numbers_that_they_begin_with():
    assert addon_order("v24.01.29.1-5318af4-aliyun") == (24, 1, 29, 1)
    assert addon_order("1.2.35") == (1, 2, 35)
    assert never_lower("v0.3.9.7-85b3699-aliyun", "v0.3.9.7-0000000-aliyun") == "v0.3.9.7-0000000-aliyun"
    assert never_lower("v1.9.3", "latest") == "v1.9.3"


@each_row(
    ("versions", "says"), [({"core-dns": "v1"}, "did you mean coredns"), ({"coredns": "latest"}, "coredns = 'latest'")]
)
def test_another_version_of_nothing_is_refused(versions, says):
    pools = {"zones": list(ZONES), "node_pools": [SYSTEM_POOL]}
    raw = {"region": "cn-hangzhou", **pools, "kubernetes": {"addon_versions": versions}}
    with pytest.raises(RefusalError, match=says):
        parse_settings({"alicloud": raw})


def test_what_only_the_console_installs_is_named(caplog):
    _addons(settings(GPU_POOL))
    assert "ack-ai-installer" not in caplog.text
    _addons(settings(pool(gpu={"sharing": {"mode": "cgpu"}})))
    assert "The GPUs of a10 are shared" in caplog.text
    assert "ack-ai-installer" in caplog.text


def test_every_addon_is_of_our_cluster():
    for addon in _addons(settings(), preview=False).values():
        assert addon.inputs["clusterId"] == "cluster-id"
