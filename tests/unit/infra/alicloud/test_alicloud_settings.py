"""Regions and zones: what belongs together, in China and elsewhere."""

from __future__ import annotations

import pytest

from infra.settings.parse import SettingsError, parse_settings

POOL = {"name": "system", "role": "system", "instance_types": ["ecs.g7.xlarge"], "minimum": 1, "maximum": 1}


def parsed(region: str, *zones: str):
    return parse_settings({"alicloud": {"region": region, "zones": list(zones), "node_pools": [POOL]}})


@pytest.mark.parametrize(
    ("region", "zones"),
    [("cn-hangzhou", ["cn-hangzhou-i", "cn-hangzhou-j"]), ("ap-southeast-1", ["ap-southeast-1a"])],
)
def test_zones_of_a_region_are_accepted(region, zones):
    settings = parsed(region, *zones).alicloud
    assert settings is not None
    assert settings.zones == tuple(zones)


@pytest.mark.parametrize(
    ("region", "zone", "fix"),
    [
        ("ap-southeast-1", "ap-southeast-2a", "such as ap-southeast-1a"),
        ("cn-hangzhou", "cn-shanghai-i", "such as cn-hangzhou-i"),
        ("cn-hangzhou", "cn-hangzhou-finance-i", "such as cn-hangzhou-i"),
        ("cn-hangzhou", "cn-hangzhou", "such as cn-hangzhou-i"),
    ],
)
def test_a_zone_of_another_region_is_refused(region, zone, fix):
    with pytest.raises(SettingsError, match=fix) as refused:
        parsed(region, zone)
    assert repr(zone) in str(refused.value)


@pytest.mark.parametrize("key", ["workers", "epochs", "replicas"])
def test_a_truth_value_is_no_number(key):
    with pytest.raises(SettingsError, match=f"digits.{key} = True"):
        parse_settings({"digits": {key: True}})
