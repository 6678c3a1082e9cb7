"""Kubernetes versions that the double's ACK offers, and which may follow which."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tools.api_double.protocol import ApiError, Route

if TYPE_CHECKING:
    from tools.api_double.account import Account
    from tools.api_double.protocol import Request

KUBERNETES_VERSIONS = (
    "1.32.7-aliyun.1",
    "1.33.3-aliyun.1",
    "1.34.1-aliyun.1",
    "1.34.3-aliyun.1",
    "1.35.1-aliyun.1",
)
"""Oldest first. A sample: the real list changes every few weeks."""
DEFAULT_VERSION = "1.34.3-aliyun.1"
CONTAINER_RUNTIME = ("containerd", "2.1.5")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)-aliyun\.(\d+)")


def parsed(version: str) -> tuple[int, int, int, int]:
    """Return a version's numbers: major, minor, patch, vendor's revision.

    Raises:
        ApiError: it is no version of ACK.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ApiError(400, "InvalidParameter.KubernetesVersion", f"the kubernetes version {version} is not valid")
    major, minor, patch, revision = map(int, match.groups())
    return major, minor, patch, revision


def check_known(version: str) -> str:
    """Return a version that clusters can be made with.

    Raises:
        ApiError: ACK does not offer it.
    """
    if version not in KUBERNETES_VERSIONS:
        raise ApiError(
            400,
            "InvalidParameter.KubernetesVersion",
            f"kubernetes version {version} is not supported, supported: {', '.join(KUBERNETES_VERSIONS)}",
        )
    return version


def upgrade_targets(version: str) -> list[str]:
    """Return the versions that a cluster may be upgraded to: higher ones up to the next minor version."""
    current = parsed(version)
    return [
        candidate
        for candidate in KUBERNETES_VERSIONS
        if parsed(candidate) > current and parsed(candidate)[1] <= current[1] + 1
    ]


def check_upgrade(current: str, wanted: str) -> None:
    """Refuse an upgrade that goes back, stands still or leaves a minor version out.

    Raises:
        ApiError: the upgrade is not possible.
    """
    check_known(wanted)
    if wanted not in upgrade_targets(current):
        raise ApiError(
            400,
            "InvalidUpgradeVersion",
            f"cluster version {current} can not be upgraded to {wanted}, upgradable: {upgrade_targets(current)}",
        )


def describe_versions(_account: Account, request: Request) -> list[dict[str, Any]]:
    """Answer DescribeKubernetesVersionMetadata."""
    runtime, runtime_version = CONTAINER_RUNTIME
    wanted = request.get("KubernetesVersion")
    return [
        {
            "version": version,
            "creatable": True,
            "upgradable_versions": upgrade_targets(version),
            "runtimes": [{"name": runtime, "version": runtime_version}],
            "images": [],
            "capabilities": {},
            "meta_data": {},
            "multi_az": "true",
        }
        for version in KUBERNETES_VERSIONS
        if wanted in {"", version}
    ]


ROUTES = [Route("GET", "/api/v1/metadata/versions", "DescribeKubernetesVersionMetadata", describe_versions)]
