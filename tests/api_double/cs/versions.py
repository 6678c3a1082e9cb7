"""Kubernetes versions that the double's ACK offers, and which may follow which.

ACK creates clusters with the latest patch of each of its three latest minors. An earlier patch is retired the day that
a newer one comes out: clusters that have it go on, and can be upgraded. Sources: ACK, "Kubernetes versions supported by
ACK" (2026-10-06), and logs of deployments from August to October 2026, which name 1.36.2, 1.35.7 and 1.34.10.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.api_double.protocol import ApiError, Route

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.api_double.account import Account
    from tests.api_double.protocol import Request

KUBERNETES_VERSIONS = (
    "1.32.7-aliyun.1",
    "1.33.3-aliyun.1",
    "1.34.1-aliyun.1",
    "1.34.3-aliyun.1",
    "1.34.10-aliyun.1",
    "1.35.1-aliyun.1",
    "1.35.2-aliyun.1",
    "1.35.7-aliyun.1",
    "1.36.1-aliyun.1",
    "1.36.2-aliyun.1",
)
"""A sample of what ACK released up to November 2026, oldest first."""
CONTAINER_RUNTIME = ("containerd", "2.1.6")
_CREATABLE_MINORS = 3
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)-aliyun\.(\d+)")
_MINOR = re.compile(r"\d+\.\d+")


def parsed(version: str) -> tuple[int, int, int, int]:
    """Return a version's numbers: major, minor, patch, vendor's revision.

    Raises:
        ApiError: it is not a version of ACK.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ApiError(400, "InvalidParameter.KubernetesVersion", f"the kubernetes version {version} is not valid")
    major, minor, patch, revision = map(int, match.groups())
    return major, minor, patch, revision


def release(account: Account, version: str) -> None:
    """Let ACK release a patch or a minor: older patches of the minor, or the oldest minor, are retired."""
    account.add("kubernetes_release", version, {})


def creatable(account: Account) -> list[str]:
    """Return the versions that clusters can be created with, newest first."""
    return _newest_of_each_minor(account)[:_CREATABLE_MINORS]


def check_creatable(account: Account, version: str) -> None:
    """Refuse a version that ACK does not create clusters with, in the words of the real one.

    Raises:
        ApiError: it is a minor alone, or retired.
    """
    if _MINOR.fullmatch(version):
        message = f"no ros component exists. clusterType: ManagedKubernetes, version: {version}"
        raise ApiError(400, "InvalidParameter.KubernetesVersion", message)
    _check_among(version, creatable(account))


def upgrade_targets(account: Account, version: str) -> list[str]:
    """Return the versions that a cluster may be upgraded to: higher ones up to the next minor version, oldest first.

    Of a minor that is too old for new clusters the latest patch remains: upgrades leave no minor out.
    """
    current = parsed(version)
    return [
        candidate
        for candidate in reversed(_newest_of_each_minor(account))
        if parsed(candidate) > current and parsed(candidate)[1] <= current[1] + 1
    ]


def check_upgrade(account: Account, current: str, requested: str) -> None:
    """Refuse an upgrade that goes back, stands still, leaves a minor version out or leads to a retired patch.

    Raises:
        ApiError: the upgrade is not possible.
    """
    _check_among(requested, _newest_of_each_minor(account))
    targets = upgrade_targets(account, current)
    if requested not in targets:
        raise ApiError(
            400,
            "InvalidUpgradeVersion",
            f"cluster version {current} can not be upgraded to {requested}, upgradable: {targets}",
        )


def describe_versions(account: Account, request: Request) -> list[dict[str, Any]]:
    """Answer DescribeKubernetesVersionMetadata: what can be created, or the version that is asked for."""
    runtime, runtime_version = CONTAINER_RUNTIME
    offered = creatable(account)
    requested = request.get("KubernetesVersion")
    return [
        {
            "version": version,
            "creatable": version in offered,
            "upgradable_versions": upgrade_targets(account, version),
            "runtimes": [{"name": runtime, "version": runtime_version}],
            "images": [],
            "capabilities": {},
            "meta_data": {},
        }
        for version in (offered if not requested else _released(account))
        if requested in {"", version}
    ]


def _released(account: Account) -> list[str]:
    return sorted({*KUBERNETES_VERSIONS, *account.all("kubernetes_release")}, key=parsed, reverse=True)


def _newest_of_each_minor(account: Account) -> list[str]:
    newest: dict[tuple[int, int], str] = {}
    for version in _released(account):
        newest.setdefault(parsed(version)[:2], version)
    return list(newest.values())


def _check_among(version: str, offered: Iterable[str]) -> None:
    if version not in offered:
        # "allowd" is ACK's own spelling: programs look for it.
        message = f"The specified KubernetesVersion {version} is invalid, allowd values are [{' '.join(offered)}]"
        raise ApiError(400, "InvalidKubernetesVersion", message)


ROUTES = [Route("GET", "/api/v1/metadata/versions", "DescribeKubernetesVersionMetadata", describe_versions)]
