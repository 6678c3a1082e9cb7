"""Canary releases: two versions of a model served at once, and the split of a service's pods between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.workload_labels import TRACK_LABEL
from workloads.checks import check_range

MAXIMUM_VERSION = 10**9
_NAMED_SPLITS = 5


@checked("canary")
@dataclass(frozen=True, kw_only=True)
class Canary:
    """A second version that answers a part of the requests.

    The parts are pods: of the service's replicas this percentage, rounded down to whole pods, serves the canary's
    version. A Service hands out connections, not requests, so the share holds over many clients. Of a service with
    `expose`, the gateway shares out requests instead, exactly, and one pod at least is the canary's. Requests of a
    canary that has no ready pod go to the other version.
    """

    version: int
    """Version of the model that the canary's pods serve."""
    percent: int
    """Share of the pods, 1 to 99, rounded down: never more than asked for. With `expose`: of the requests."""

    def __post_init__(self) -> None:
        """Refuse an invalid version or share."""
        check_range("canary.version", self.version, 1, MAXIMUM_VERSION)
        check_range("canary.percent", self.percent, 1, 99)

    def pods(self, replicas: int, *, by_requests: bool = False) -> int:
        """Return how many of the replicas are the canary's.

        Args:
            replicas: All of them.
            by_requests: Whether a gateway shares out requests, whatever the number of pods.

        Raises:
            RefusalError: it would be none; the message names the possible shares.
        """
        pods = replicas * self.percent // 100
        if by_requests and replicas > 1:
            return max(1, pods)
        if by_requests:
            limit = "each version needs a pod of its own"
            raise RefusalError("replicas", replicas, limit, "use replicas=2 or more, or omit it")
        if pods:
            return pods
        needed = -(-100 // self.percent)
        possible = [str(-(-100 * count // replicas)) for count in range(1, replicas)][:_NAMED_SPLITS]
        lower = f", or percent={' or '.join(possible)}" if possible else ""
        raise RefusalError(
            "canary.percent",
            self.percent,
            f"is less than one pod of {replicas}",
            f"use replicas={needed} or more{lower}",
        )


@dataclass(frozen=True, kw_only=True)
class Track:
    """Pods of a service that serve the same version: a Deployment."""

    suffix: Literal["", "-canary"] = ""
    """Suffix of its name after the service's. The stable track has the service's own, with a canary and without:
    else the first canary would replace all pods at once."""
    label: Literal["stable", "canary"] | None = None
    """Value of TRACK_LABEL; None where there is one track alone, inside the cluster. At the gateway the pods have it
    before there is a canary: a route to pods that get it in a rollout would find none at first."""
    replicas: int | None
    """None where an autoscaler decides."""
    version: int | None
    """None: as the model's version_policy says."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of its pods in addition to the service's label."""
        return {TRACK_LABEL: self.label} if self.label else {}


def tracks(
    most_pods: int, version: int | None, canary: Canary | None, *, by_requests: bool, autoscaled: bool
) -> tuple[Track, ...]:
    """Return the Deployments of a service.

    Args:
        most_pods: Pods of both versions together, at the highest load.
        version: Of the stable track.
        canary: The second version, if there is one.
        by_requests: Whether a gateway shares out requests, whatever the number of pods.
        autoscaled: Whether an autoscaler decides about the stable track. The canary has its pods for the highest load
            at all times: two autoscalers whose pods one selector matches both stop.

    Raises:
        RefusalError: the pods cannot be split as the canary asks.
    """
    pods = canary.pods(most_pods, by_requests=by_requests) if canary else 0
    stable = Track(
        label="stable" if canary or by_requests else None,
        replicas=None if autoscaled else most_pods - pods,
        version=version,
    )
    if canary is None:
        return (stable,)
    return stable, Track(suffix="-canary", label="canary", replicas=pods, version=canary.version)
