"""Physical names and tags of the project's resources on Alibaba Cloud."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pulumi

from infra.errors import RefusalError

if TYPE_CHECKING:
    from infra.settings.alicloud import AlicloudSettings

LONGEST_NAME = 63
"""The shortest limit of the kinds we name: ACK clusters and node pools, OSS buckets. NAS access groups and RAM roles
take 64, the rest 128."""
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""Accepted by every kind: no upper case (OSS buckets), underscore (RAM roles) or leading digit (security groups)."""


def resource_name(thing: str) -> str:
    """Return `<project>-<stack>-<thing>`, such as athanor-prod-vpc: unique in the account, legal for every kind.

    Raises:
        RefusalError: the name is too long or has characters that some kind refuses.
    """
    stack = pulumi.get_stack()
    name = f"{pulumi.get_project()}-{stack}-{thing}"
    fix = f"rename the stack {stack!r} or the part {thing!r}"
    if len(name) > LONGEST_NAME:
        raise RefusalError(
            "name", name, f"has {len(name)} characters, but Alibaba Cloud accepts at most {LONGEST_NAME}", fix
        )
    if not _NAME.fullmatch(name):
        raise RefusalError(
            "name",
            name,
            "must start with a letter and contain only a-z, 0-9 and single hyphens, which every service accepts",
            fix,
        )
    return name


def tags(settings: AlicloudSettings) -> dict[str, str]:
    """Return the tags of every resource that carries them: the settings' own and whose it is."""
    return {**settings.tags, "athanor:project": pulumi.get_project(), "athanor:stack": pulumi.get_stack()}
