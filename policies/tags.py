"""Rules about tags, which divide the bill and identify leftovers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.rule import Finding, Rule, RuleConfig, demand, message
from policies.values import Unknown, entries, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.resources import Resource

_TAGGED = frozenset(
    {
        "alicloud:cs/managedKubernetes:ManagedKubernetes",
        "alicloud:cs/nodePool:NodePool",
        "alicloud:ecs/ecsDisk:EcsDisk",
        "alicloud:ecs/eipAddress:EipAddress",
        "alicloud:ecs/instance:Instance",
        "alicloud:ecs/securityGroup:SecurityGroup",
        "alicloud:nas/fileSystem:FileSystem",
        "alicloud:oss/bucket:Bucket",
        "alicloud:vpc/natGateway:NatGateway",
        "alicloud:vpc/network:Network",
        "alicloud:vpc/switch:Switch",
    }
)
"""Types that are billed, or hold what is billed, and take tags."""


class RequiredTags(RuleConfig):
    """Configuration of `required-tags`."""

    tags: tuple[str, ...] = ("athanor:project", "athanor:stack")
    """Keys that every resource has, with a value."""


def _tags(resource: Resource, config: RequiredTags) -> Iterator[Finding]:
    if resource.type not in _TAGGED:
        return
    given = read(resource.properties, "tags")
    if isinstance(given, Unknown):
        yield given
        return
    present = entries(given)
    for tag in config.tags:
        text = message(f"tags[{tag}]", present.get(tag), "must be given", "set it (athanor:alicloud.tags)")
        yield from demand(present.get(tag), bool, text)


RULES = (
    Rule(
        name="required-tags",
        demand="What is billed has the environment's tags.",
        severity="medium",
        config=RequiredTags,
        check=_tags,
    ),
)
