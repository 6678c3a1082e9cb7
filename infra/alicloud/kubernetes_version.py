"""The Kubernetes version that a cluster is created with, or upgraded to.

ACK takes only full versions: of a minor its API says "no ros component exists. clusterType: ManagedKubernetes, version:
1.35" (log of a deployment, 2026-08-25), and the provider sends on what it is given. It offers one patch of each of the
three newest minors, and none of the earlier ones (logs of 2026-08 to 2026-10; "Kubernetes versions supported by ACK",
2026-10-06). So a minor in the settings becomes a patch when the cluster is created: ACK is asked at `up`, never in a
preview, and the answer is kept in the stack's state under the minor's name. Another minor has no answer yet, and ACK is
asked again: that is the upgrade. Settings without a version ask once, and upgrade nothing.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, cast

import pulumi
import pulumi_alicloud as alicloud

from infra.alicloud.provider import of_created
from infra.errors import RefusalError
from infra.settings.alicloud_kubernetes import DEFAULT_VERSION, END_OF_SUPPORT, minor_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.alicloud_kubernetes import KubernetesSettings

SETTING = "alicloud.kubernetes.version"
_NEARLY_OUT_OF_SUPPORT = timedelta(days=90)
_OLDEST_CREATABLE = 34
"""Minor of the oldest version that ACK creates clusters with ("Kubernetes versions supported by ACK", 2026-10-06)."""


def version_order(version: str) -> tuple[int, ...]:
    """Return the numbers of a version of ACK, for comparisons: (1, 34, 10, 1) of 1.34.10-aliyun.1."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def offered_patch(minor: str, offered: Sequence[str]) -> str:
    """Return the latest version of a minor, such as 1.34, that ACK offers.

    Raises:
        RefusalError: it offers none.
    """
    of_minor = [version for version in offered if version.startswith(f"{minor}.")]
    if not of_minor:
        raise RefusalError(
            SETTING,
            minor,
            f"ACK offers {', '.join(offered) or 'no version'} in this region",
            "set one of these minors. To upgrade an existing cluster to a version that is not offered for new ones,"
            " set the full version shown on its page in the console",
        )
    return max(of_minor, key=version_order)


def default_patch(offered: Sequence[str]) -> str:
    """Return the version of a new cluster whose settings name none: of the default minor, or the one next to it.

    An existing cluster does not have it, and must not depend on what ACK offered once: so no minor is refused.

    Raises:
        RefusalError: ACK offers nothing.
    """
    if any(version.startswith(f"{DEFAULT_VERSION}.") for version in offered):
        return offered_patch(DEFAULT_VERSION, offered)
    minors = sorted({f"1.{minor_of(version)}" for version in offered}, key=version_order)
    return offered_patch(minors[0] if minors else DEFAULT_VERSION, offered)


def kubernetes_version(settings: KubernetesSettings, parent: pulumi.Resource) -> pulumi.Input[str]:
    """Return the full version of the cluster: the pinned one, or what ACK offered when the minor was first used."""
    minor = settings.version
    if settings.pinned:
        return settings.new_version
    offered = pulumi.Stash(
        f"kubernetes-{minor or 'versions'}",
        input=_offered(parent),
        opts=pulumi.ResourceOptions(
            parent=parent,
            # What ACK offers later must not change this cluster.
            ignore_changes=["input"],
            # The default was 1.34.
            aliases=None if minor else [pulumi.Alias(name="kubernetes-1.34")],
            hooks=pulumi.ResourceHookBinding(before_create=[_offer_hook(settings)]),
        ),
    )
    versions = of_created(offered, offered.output)
    if minor is None:
        return versions.apply(default_patch)
    return versions.apply(lambda known: offered_patch(minor, known))


def creatable_hook(settings: KubernetesSettings) -> pulumi.ResourceHook:
    """Return the hook of a cluster that refuses, in previews too, to create one with a minor that ACK has retired."""

    def refuse(_: pulumi.ResourceHookArgs) -> None:
        if settings.minor < _OLDEST_CREATABLE:
            raise RefusalError(
                SETTING,
                settings.new_version,
                f"ACK creates clusters only with Kubernetes 1.{_OLDEST_CREATABLE} or newer; existing older ones keep"
                " running",
                f"set 1.{_OLDEST_CREATABLE} or a newer minor",
            )
        end = date.fromisoformat(END_OF_SUPPORT[settings.minor])
        if settings.minor < minor_of(DEFAULT_VERSION) or end - _today() < _NEARLY_OUT_OF_SUPPORT:
            newer = max(minor_of(DEFAULT_VERSION), settings.minor + 1)
            fix = f"set 1.{newer}" if newer in END_OF_SUPPORT else "update athanor: this one knows no newer minor"
            pulumi.log.warn(
                f"{SETTING} = {settings.new_version!r}: ACK's support of 1.{settings.minor} ends on {end}. Fix: {fix}"
            )

    return pulumi.ResourceHook("cluster-creatable", refuse, pulumi.ResourceHookOptions(on_dry_run=True))


def _today() -> date:
    return datetime.now(UTC).date()


def _offered(parent: pulumi.Resource) -> pulumi.Output[list[str]]:
    if pulumi.runtime.is_dry_run():
        return cast("pulumi.Output[list[str]]", pulumi.Output.from_input(pulumi.UNKNOWN))
    answer = alicloud.cs.get_kubernetes_version_output(
        cluster_type="ManagedKubernetes", profile="Default", opts=pulumi.InvokeOutputOptions(parent=parent)
    )
    return answer.apply(lambda known: [offered.version for offered in known.metadatas])


def _offer_hook(settings: KubernetesSettings) -> pulumi.ResourceHook:
    minor = settings.version

    def check(args: pulumi.ResourceHookArgs) -> None:
        offered = (args.new_inputs or {}).get("input")
        if not isinstance(offered, list):
            pulumi.log.info(
                f"{SETTING} = {settings.new_version!r}: a preview does not query ACK for the patch it offers;"
                " `pulumi up` does."
            )
        elif minor is not None:
            offered_patch(minor, cast("list[str]", offered))

    name = f"kubernetes-{minor or 'versions'}-offered"
    return pulumi.ResourceHook(name, check, pulumi.ResourceHookOptions(on_dry_run=True))
