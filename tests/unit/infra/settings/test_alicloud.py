"""Regions and zones: what belongs together, in China and elsewhere."""

from __future__ import annotations

import re

import pytest

from infra.regions import ZONE_LETTERS, zones_of_region
from infra.settings.parse import SettingsError, parse_settings
from tests.tables import each_row

POOL = {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 1, "maximum": 1}
H20 = {"name": "h20", "role": "gpu", "instance_types": ["ecs.ebmgn8v.48xlarge"], "maximum": 1}


def parsed(region: str, *zones: str):
    return parse_settings({"alicloud": {"region": region, "zones": list(zones), "node_pools": [POOL]}})


@each_row(
    ("region", "zones"), [("cn-hangzhou", ["cn-hangzhou-i", "cn-hangzhou-j"]), ("ap-southeast-1", ["ap-southeast-1a"])]
)
def test_zones_of_a_region_are_accepted(region, zones):
    settings = parsed(region, *zones).alicloud
    assert settings is not None
    assert settings.zones == tuple(zones)


@each_row(
    ("region", "zone", "fix"),
    [
        ("ap-southeast-1", "ap-southeast-2a", "did you mean ap-southeast-1a"),
        ("cn-hangzhou", "cn-shanghai-i", "did you mean cn-hangzhou-i"),
        ("cn-hangzhou", "cn-hangzhou-finance-i", "did you mean cn-hangzhou-"),
        ("cn-hangzhou", "cn-hangzhou", "did you mean cn-hangzhou-"),
        ("cn-hangzhou", "cn-hangzhou-z", "is not a zone of cn-hangzhou"),
        ("cn-hangzhou", "cn-hangzhoui", "did you mean cn-hangzhou-i"),
    ],
)
def test_a_zone_that_does_not_exist_is_refused(region, zone, fix):
    with pytest.raises(SettingsError, match=fix) as refused:
        parsed(region, zone)
    assert repr(zone) in str(refused.value)


def test_a_region_that_does_not_exist_is_refused():
    with pytest.raises(SettingsError, match=r"alicloud\.region = 'cn-hangzou'.*did you mean cn-hangzhou"):
        parsed("cn-hangzou", "cn-hangzou-i")


@each_row("region", sorted(ZONE_LETTERS))
def test_every_zone_of_the_table_is_accepted(region):
    for zone in zones_of_region(region):
        parsed(region, zone)


@each_row(
    ("changes", "says"),
    [
        ({"key_pair": "my key"}, "alicloud.key_pair = 'my key'"),
        ({"key_pair": "1st"}, "alicloud.key_pair = '1st'"),
        ({"kubernetes": {"version": "1.31.9-aliyun.1"}}, "older than 1.32"),
        ({"kubernetes": {"version": "1.99.1-aliyun.1"}}, "newer than 1.36, the latest that ACK offers"),
        ({"kubernetes": {"version": "1.34.0-aliyun.1"}}, "1.34.0-aliyun.1"),
        ({"kubernetes": {"version": "1.34.99-aliyun.1"}}, "1.34.99-aliyun.1"),
        ({"node_pools": [POOL, {**H20, "gpu": {"driver_version": "latest"}}]}, "gpu.driver_version = 'latest'"),
        ({"node_pools": [POOL, {**H20, "gpu": {"driver_version": "570.153.02"}}]}, "is not in ACK's list of drivers"),
        ({"node_pools": [POOL, {**H20, "gpu": {"driver_version": "550"}}]}, "write it as 580.126.09"),
        ({"node_pools": [POOL, {**H20, "image_type": "ContainerOS"}]}, "ecs.ebmgn8v.48xlarge boots with UEFI"),
    ],
)
def test_what_the_cloud_would_refuse_or_never_start_is_refused_early(changes, says):
    alicloud = {"region": "cn-hangzhou", "zones": ["cn-hangzhou-i"], "node_pools": [POOL], **changes}
    with pytest.raises(SettingsError, match=re.escape(says)) as refused:
        parse_settings({"alicloud": alicloud})
    assert "Fix: " in str(refused.value)


@each_row(
    "changes",
    [
        {"key_pair": "ops:team_1.key-2"},
        {"key_pair": "运维"},
        {"kubernetes": {"version": "1.36.1-aliyun.1"}},
        {"node_pools": [POOL, {**H20, "gpu": {"driver_version": "535.161.07"}, "image_type": "Ubuntu"}]},
        {"node_pools": [POOL, {**H20, "gpu": {"driver_version": "570.169"}}]},
        {"node_pools": [POOL, {**H20, "instance_types": ["ecs.gn8v.4xlarge"], "image_type": "ContainerOS"}]},
    ],
)
def test_what_the_cloud_takes_is_accepted(changes):
    alicloud = {"region": "cn-hangzhou", "zones": ["cn-hangzhou-i"], "node_pools": [POOL], **changes}
    parse_settings({"alicloud": alicloud})


@each_row("key", ["workers", "epochs", "replicas"])
def test_a_truth_value_is_not_a_number(key):
    with pytest.raises(SettingsError, match=f"digits.{key} = True"):
        parse_settings({"digits": {key: True}})


def test_the_gateway_may_have_a_load_balancer_inside_the_vpc():
    gateway = {"enabled": True, "address": "internal"}
    alicloud = {"region": "cn-hangzhou", "zones": ["cn-hangzhou-i"], "node_pools": [POOL]}
    assert parse_settings({"alicloud": alicloud, "gateway": gateway}).gateway.address == "internal"
