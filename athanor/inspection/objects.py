"""Kubernetes objects as the API returns them, with accessors that several diagnoses share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from infra.kubernetes.quantities import quantity_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Object = dict[str, Any]
"""An object in the API's own JSON shape."""

JOBS = "jobs.batch.volcano.sh"
"""Volcano's jobs, as kubectl spells the resource."""
POD_GROUPS = "podgroups.scheduling.volcano.sh"
TASK = "volcano.sh/task-spec"
JOB_NAME = "volcano.sh/job-name"
"""Volcano writes these two on every pod of a job, as labels and as annotations."""


class Amounts(dict[str, Fraction]):
    """Amounts by resource name: cores, bytes, devices. Exact, as sums of millicores must be; 0 of what is not named."""

    def __missing__(self, key: str) -> Fraction:
        """Return nothing of a resource, without noting that it was asked for."""
        return Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of a cluster at one moment; everything else here is computed from it."""

    namespace: str
    """Namespace of the jobs that are asked about."""
    jobs: Sequence[Object] = ()
    pod_groups: Sequence[Object] = ()
    """Those of every namespace, as far as they may be read: queues are shared between namespaces."""
    pods: Sequence[Object] = ()
    """Those of every namespace, as far as they may be read: nodes are shared between namespaces."""
    events: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    quotas: Sequence[Object] = ()
    deployments: Sequence[Object] = ()
    services: Sequence[Object] = ()
    queues: Sequence[Object] = ()
    nodes: Sequence[Object] = ()
    priority_classes: Sequence[Object] = ()
    unreadable: Sequence[str] = ()
    """Kinds that this user may not read, at all or in other namespaces; what depends on them is unknown."""

    @cached_property
    def pods_by_job(self) -> Mapping[str, list[Object]]:
        """Pods of the namespace by the name of their Job."""
        by_job: defaultdict[str, list[Object]] = defaultdict(list)
        for pod in self.pods:
            if pod["metadata"].get("namespace", self.namespace) == self.namespace:
                by_job[mark(pod, JOB_NAME)].append(pod)
        return by_job


def unread_words(snapshot: Snapshot) -> str:
    """Say what is left out because it may not be read; empty if nothing is."""
    kinds = ", ".join(snapshot.unreadable)
    return f"Not displayed, because this user does not have the right to list {kinds}." if kinds else ""


def name_of(item: Object) -> str:
    """Return an object's name."""
    return item["metadata"]["name"]


def mark(item: Object, key: str) -> str:
    """Return the label of that key, else the annotation, else the empty text."""
    metadata = item["metadata"]
    return metadata.get("labels", {}).get(key) or metadata.get("annotations", {}).get(key) or ""


def phase_of(item: Object) -> str:
    """Return `status.phase`, empty where there is none yet."""
    return item.get("status", {}).get("phase", "")


def condition(item: Object, kind: str) -> Object:
    """Return the condition of a type, empty where there is none; of several the last one counts."""
    matching = [each for each in item.get("status", {}).get("conditions", []) if each["type"] == kind]
    return matching[-1] if matching else {}


def has_ended(pod: Object) -> bool:
    """Whether a pod holds nothing on its node any more."""
    return phase_of(pod) in {"Succeeded", "Failed"}


def node_of(pod: Object) -> str:
    """Return the name of the node that a pod is bound to, empty before."""
    return pod["spec"].get("nodeName", "")


def amounts(written: Mapping[str, object] | None) -> Amounts:
    """Return a resource list of the API as numbers."""
    return Amounts({key: quantity_value(str(value)) for key, value in (written or {}).items()})


def added(lists: Iterable[Amounts]) -> Amounts:
    """Return the sum."""
    total = Amounts()
    for each in lists:
        for key, value in each.items():
            total[key] += value
    return total


def formatted(amount: float | Fraction, resource: str = "") -> str:
    """Return a number as a person writes it; bytes in GiB."""
    if resource == "memory" or resource.endswith("storage"):
        return f"{float(amount) / 2**30:.3g} GiB"
    return str(int(amount)) if amount == int(amount) else f"{float(amount):.3g}"


def moment(text: str) -> datetime:
    """Return a time of the API (RFC 3339) as a moment."""
    return datetime.fromisoformat(text)


def age(since: str | None, now: datetime) -> str:
    """Return how long ago a time of the API was, in its one or two largest units."""
    if not since:
        return "-"
    seconds = max(0, int((now - moment(since)).total_seconds()))
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"


def when(text: str | None) -> str:
    """Return a time of the API for a sentence."""
    return moment(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if text else "an unknown time"


def events_of(snapshot: Snapshot, item: Object) -> list[Object]:
    """Return the events about an object, the latest last."""
    metadata = item["metadata"]
    events = [
        event
        for event in snapshot.events
        if event["involvedObject"].get("name") == metadata["name"]
        # A name comes back with a job that runs again; its events of the time before do not count.
        and event["involvedObject"].get("uid", metadata.get("uid")) == metadata.get("uid")
    ]
    return sorted(events, key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")


def last_event(snapshot: Snapshot, item: Object, *reasons: str) -> str:
    """Return the message of the latest event with one of the reasons, empty if there is none."""
    messages = [event.get("message", "") for event in events_of(snapshot, item) if event.get("reason") in reasons]
    return messages[-1] if messages else ""
