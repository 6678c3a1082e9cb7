"""Regions of Alibaba Cloud and their zones.

Sources: Alibaba Cloud, "Regions and zones" (ECS user guide); the regions that the provider knows
(aliyun/terraform-provider-alicloud, alicloud/connectivity/regions.go). Never compared with a live account (`aliyun ecs
DescribeZones`). Zones open and close: one that is missing here belongs in the table.
"""

from __future__ import annotations

from string import ascii_lowercase

_UNPUBLISHED = ascii_lowercase
"""Zones of regions for finance and government, which no public page lists."""

ZONE_LETTERS = {
    "cn-beijing": "abcdefghijkl",
    "cn-beijing-finance-1": _UNPUBLISHED,
    "cn-chengdu": "ab",
    "cn-fuzhou": "a",
    "cn-guangzhou": "ab",
    "cn-hangzhou": "abcdefghijk",
    "cn-hangzhou-finance": _UNPUBLISHED,
    "cn-heyuan": "ab",
    "cn-hongkong": "bcd",
    "cn-huhehaote": "ab",
    "cn-nanjing": "a",
    "cn-north-2-gov-1": _UNPUBLISHED,
    "cn-qingdao": "bc",
    "cn-shanghai": "abcdefghijklmn",
    "cn-shanghai-finance-1": _UNPUBLISHED,
    "cn-shenzhen": "abcdef",
    "cn-shenzhen-finance-1": _UNPUBLISHED,
    "cn-wuhan-lr": "a",
    "cn-wulanchabu": "abc",
    "cn-zhangjiakou": "abc",
    "cn-zhongwei": "a",
    "ap-northeast-1": "abc",
    "ap-northeast-2": "ab",
    "ap-southeast-1": "abc",
    "ap-southeast-3": "abc",
    "ap-southeast-5": "abc",
    "ap-southeast-6": "ab",
    "ap-southeast-7": "ab",
    "ap-southeast-8": _UNPUBLISHED,
    "eu-central-1": "abc",
    "eu-west-1": "abc",
    "me-central-1": "ab",
    "me-east-1": "ab",
    "na-south-1": "ab",
    "us-east-1": "ab",
    "us-southeast-1": "ab",
    "us-west-1": "abc",
}
"""Letters of the zones by region."""


def zones_of_region(region: str) -> tuple[str, ...]:
    """Return the zones of a region: cn-hangzhou-i, but ap-southeast-1a."""
    separator = "" if region[-1].isdigit() else "-"
    return tuple(f"{region}{separator}{letter}" for letter in ZONE_LETTERS[region])
