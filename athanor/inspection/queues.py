"""Queues: the jobs that wait in them, in order, and the resources that are still available."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.inspection.gpus import allocatable, is_gpu, used_by_queue
from athanor.inspection.objects import Amounts, Object, Snapshot, added, amounts, formatted, name_of, phase_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

_WAITING = {"", "Pending", "Inqueue"}
"""Phases of a PodGroup whose gang does not have its nodes."""
_ROOT = "root"
"""The parent of all queues, which Volcano makes: what it is given is theirs."""
_WAIT = "wait for the queue's running jobs, use another queue"


def priority(snapshot: Snapshot, class_name: str) -> int:
    """Return the value of a PriorityClass; without a name that of the cluster's default, else 0."""
    for each in snapshot.priority_classes:
        if name_of(each) == class_name or (not class_name and each.get("globalDefault")):
            return each["value"]
    return 0


def waiting(snapshot: Snapshot, queue: str) -> list[Object]:
    """Return the PodGroups that wait in a queue, the first one first.

    Volcano takes the highest priority, then of equal ones the oldest, then by UID (framework, `Session.JobOrderFn` with
    the plugins `priority` and `gang`; `drf` ranks jobs that hold nothing yet alike).
    """
    groups = [each for each in snapshot.pod_groups if each["spec"].get("queue", "default") == queue]
    return sorted(
        (each for each in groups if phase_of(each) in _WAITING),
        key=lambda each: (
            -priority_of(snapshot, each),
            each["metadata"].get("creationTimestamp", ""),
            each["metadata"].get("uid", ""),
        ),
    )


def priority_of(snapshot: Snapshot, group: Object) -> int:
    """Return the priority of a PodGroup."""
    return priority(snapshot, group["spec"].get("priorityClassName", ""))


def position(snapshot: Snapshot, group: Object) -> tuple[int, int] | None:
    """Return a waiting PodGroup's place in its queue, from 1, and how many wait; None if it does not wait."""
    line = waiting(snapshot, group["spec"].get("queue", "default"))
    places = [place for place, each in enumerate(line, 1) if each["metadata"] == group["metadata"]]
    return (places[0], len(line)) if places else None


def place_of_new(snapshot: Snapshot, queue: str, class_name: str) -> tuple[int, int]:
    """Return the place that a new job would have in a queue, from 1, and how many would wait with it."""
    own, line = priority(snapshot, class_name), waiting(snapshot, queue)
    return sum(priority_of(snapshot, each) >= own for each in line) + 1, len(line) + 1


def find_queue(snapshot: Snapshot, name: str) -> Object | None:
    """Return a queue; None if there is none, or if queues may not be read."""
    return next((queue for queue in snapshot.queues if name_of(queue) == name), None)


def capability(queue: Object) -> Amounts:
    """Return the hard limit of a queue; a resource that is not in it has none."""
    return amounts(queue["spec"].get("capability"))


def guaranteed_to_others(snapshot: Snapshot, queue: Object) -> Amounts:
    """Return the guarantees of the other queues, which no job of this queue can use even while they are idle."""
    others = [each for each in snapshot.queues if name_of(each) not in {name_of(queue), _ROOT}]
    return added(amounts(each["spec"].get("guarantee", {}).get("resource")) for each in others)


def over_limit(snapshot: Snapshot, queue: Object, need: Mapping[str, Fraction]) -> tuple[str, str] | None:
    """Return why a queue cannot take this much more, and what to do; None if it can.

    The limit is Volcano's `realCapability` (plugins proportion and capacity): the queue's capability, and no more than
    the cluster without what other queues are guaranteed.
    """
    name, limit, others = name_of(queue), capability(queue), guaranteed_to_others(snapshot, queue)
    used, total = used_by_queue(snapshot).get(name, Amounts()), added(map(allocatable, snapshot.nodes))
    for kind in sorted(need, key=lambda each: (not is_gpu(each), each)):
        asked, has = formatted(need[kind], kind), formatted(used[kind], kind)
        if kind in limit and need[kind] > limit[kind]:
            because = (
                f"the job needs {asked} {kind} at once, but queue {name!r} may use only {formatted(limit[kind], kind)}"
            )
            return because, f"request less, use another queue, or raise scheduling.queues[{name}].capability"
        if kind in limit and used[kind] + need[kind] > limit[kind]:
            of = f"{has} of {formatted(limit[kind], kind)} {kind} are used"
            because = f"queue {name!r} is at its limit: {of}, and the job needs {asked} more"
            return because, f"{_WAIT}, or raise scheduling.queues[{name}].capability"
        if kind in others and snapshot.nodes and used[kind] + need[kind] > total[kind] - others[kind]:
            reserved = f"{formatted(others[kind], kind)} are reserved for other queues"
            kept = f"the cluster has {formatted(total[kind], kind)}, {reserved}"
            because = f"queue {name!r} cannot take {asked} more {kind}: {has} are in use, and {kept}"
            return because, f"{_WAIT}, or lower another queue's guarantee"
    return None
