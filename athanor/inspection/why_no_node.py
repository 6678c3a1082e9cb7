"""Reasons why a job's pods have no nodes: queue, quota, node types, free capacity, other jobs, Volcano's message."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from athanor.inspection.containers import Finding
from athanor.inspection.control_characters import shortened
from athanor.inspection.jobs import logical_name
from athanor.inspection.node_fit import Shortage, refusal, selects, shortage, wanted_nodes
from athanor.inspection.objects import (
    Object,
    amounts,
    condition,
    events_of,
    formatted,
    name_of,
    node_of,
    phase_of,
)
from athanor.inspection.queues import find_queue, over_limit, priority_of, waiting
from infra.kubernetes.quantities import quantity_value
from infra.node_labels import POOL_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from athanor.inspection.case import Case

_ORIGIN = re.compile(r"Origin reason is:? ?(.*)", re.DOTALL)
_NAMED = 3
_QUOTA_WORDS = "resource quota insufficient, requested:"
_QUEUE_WORDS = "queue resource quota insufficient"
_CLUSTER_WORDS = "resource in cluster is overused"


def no_queue(case: Case) -> Finding | None:
    """Say that the queue does not exist or takes no jobs."""
    if not case.waits or any("queues" in kind for kind in case.snapshot.unreadable):
        return None
    queue = find_queue(case.snapshot, case.queue)
    names = ", ".join(sorted(name_of(each) for each in case.snapshot.queues if name_of(each) != "root"))
    if queue is None:
        because = f"{case.name} uses the queue {case.queue!r}, which does not exist"
        step = f"use one of {names or '(none exists)'}, or add it under scheduling.queues"
        return Finding(cause="no-queue", because=because, next_step=step)
    state = queue.get("status", {}).get("state", "Open")
    if state in {"Closed", "Closing"}:
        because = f"queue {case.queue!r} is {state.lower()} and lets no job start"
        return Finding(cause="queue-closed", because=because, next_step=f"open it, or use another of {names}")
    return None


def too_much(case: Case) -> Finding | None:
    """Say that one pod asks for more than any node of its kind has."""
    short = _shortage(case)
    if short is None or short.each <= short.biggest_node:
        return None
    kind = short.resource
    because = (
        f"one {short.role.name} of {case.name} requests {formatted(short.each, kind)} {kind}, but the largest node in"
        f" {_where(short)} has {formatted(short.biggest_node, kind)}"
    )
    step = "request less per pod and more pods, or use another pool"
    return Finding(cause="too-large", because=because, next_step=step)


def unmatched(case: Case) -> Finding | None:
    """Say that no node is of the type that a role wants, or that those that are keep its pods away."""
    if not case.snapshot.nodes:
        return None
    for role in case.roles:
        if not role.waiting:
            continue
        selected = [node for node in case.snapshot.nodes if selects(role.template, node)]
        required = wanted_nodes(role.template) or "what its selectors require"
        if not selected:
            because = f"no node matches {required}, where {role.name} of {case.name} must run"
            step = (
                f"if the pool is autoscaled, wait for its nodes (`kubectl get nodes -L {POOL_LABEL}`); otherwise add"
                " nodes to it, or use another pool"
            )
            return Finding(cause="no-node", because=because, next_step=step)
        reasons = Counter(refusal(role.template, node) for node in selected)
        if "" not in reasons:
            said = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
            of = f" of {required}" if wanted_nodes(role.template) else ""
            because = f"none of the {len(selected)} nodes{of} takes {role.name} of {case.name}: {said}"
            return Finding(cause="taint", because=because, next_step=_taint_fix(set(reasons)))
    return None


def _taint_fix(reasons: set[str]) -> str:
    if reasons <= {"not ready", "cordoned"}:
        return "wait until the nodes are back (`kubectl get nodes`), or use another pool"
    return "set the pool in the job, which tolerates the pool's taints, or add a toleration"


def quota(case: Case) -> Finding | None:
    """Say that the namespace's quota has no room for the pods that are still to be created."""
    missing = sum(role.replicas for role in case.roles) - len(case.pods)
    if missing <= 0:
        return None
    # Pods that exist are among what is used: the sum below is right only for a job without any.
    because = _over_quota(case, missing) if not case.pods else ""
    if not because and (said := _last_words(case, _QUOTA_WORDS)):
        because = f"the quota of namespace {case.namespace!r} has no room for {case.name} ({shortened(said)})"
    return Finding(cause="quota", because=because, next_step=_QUOTA_FIX) if because else None


def _over_quota(case: Case, pods: int) -> str:
    for each in case.snapshot.quotas:
        hard, used = each.get("status", {}).get("hard", {}), each.get("status", {}).get("used", {})
        for key, limit in hard.items():
            asked = pods if key == "pods" else case.need[_resource_of(key)]
            if asked and quantity_value(str(used.get(key, 0))) + asked > quantity_value(str(limit)):
                return (
                    f"quota {name_of(each)!r} of namespace {case.namespace!r} has no room for {case.name}: {key} needs"
                    f" {formatted(asked, _resource_of(key))}, {used.get(key, 0)} of {limit} are used"
                )
    return ""


_QUOTA_FIX = "wait for other jobs of the namespace, request less, or have the quota raised"


def _resource_of(key: str) -> str:
    """Return the resource that a quota's key limits the requests of; empty for limits and counts of objects."""
    plain = key.removeprefix("requests.")
    return plain if plain in {"cpu", "memory"} or (plain != key and "/" in plain) else ""


def queue_limit(case: Case) -> Finding | None:
    """Say that the job's queue may not take so much more."""
    queue = find_queue(case.snapshot, case.queue)
    if queue is None or not case.waits:
        return None
    written = (case.group or {}).get("spec", {}).get("minResources")
    need = amounts(written) if written and case.starts_whole else case.need
    need = {key: value for key, value in need.items() if key in case.need}
    if excess := over_limit(case.snapshot, queue, need):
        return Finding(cause="queue-limit", because=excess[0], next_step=excess[1])
    return None


def no_room(case: Case) -> Finding | None:
    """Say what is not free, and how much of the gang could have nodes."""
    short = _shortage(case)
    if short is None:
        return None
    kind, role = short.resource, short.role
    needs = short.each * role.waiting
    numbers = (
        f"needs {formatted(needs, kind)}, {formatted(short.free, kind)} free in {_where(short)}, largest free per node"
        f" {formatted(short.largest, kind)}"
    )
    what = "GPUs" if kind.startswith("nvidia.com/gpu") else kind
    gang = f"{short.placed} of the {role.waiting} waiting {role.name} pods can be placed"
    ahead = _ahead_words(case)
    step = (
        f"wait for a running job to end ({case.commands.overview}), request fewer or smaller pods, or add nodes to the"
        " pool"
    )
    if short.free >= needs or short.placed:
        whole = ", and none starts until all can" if case.starts_whole else ""
        because = f"the gang of {case.name} is incomplete: {gang}{whole} ({kind}: {numbers}){ahead}"
        return Finding(cause="gang", because=because, next_step=step)
    because = f"not enough free {what} for {case.name} ({kind}: {numbers}){ahead}"
    return Finding(cause="no-room", because=because, next_step=step)


def _where(short: Shortage) -> str:
    return wanted_nodes(short.role.template) or short.where


def _shortage(case: Case) -> Shortage | None:
    return shortage(case.snapshot, case.roles) if case.snapshot.nodes and case.waits else None


def ahead_of(case: Case) -> list[Object]:
    """Return the PodGroups that wait in the same queue and come first."""
    if case.group is None:
        return []
    line = waiting(case.snapshot, case.queue)
    names = [name_of(each) for each in line]
    own = name_of(case.group)
    return line[: names.index(own)] if own in names else []


def _ahead_words(case: Case) -> str:
    ahead = ahead_of(case)
    return f", and {len(ahead)} waiting jobs of queue {case.queue!r} come first" if ahead else ""


def behind(case: Case) -> Finding | None:
    """Say which jobs come first, where there is room that it does not get."""
    ahead = ahead_of(case)
    if not ahead or case.group is None:
        return None
    own = priority_of(case.snapshot, case.group)
    higher = [each for each in ahead if priority_of(case.snapshot, each) > own]
    first = higher or ahead
    known = {job["metadata"].get("uid"): logical_name(job) for job in case.snapshot.jobs}
    names = ", ".join([*(_owner(each, known) for each in first[:_NAMED]), *(["…"] if len(first) > _NAMED else [])])
    rank = f"{len(higher)} with a higher priority than its {own}" if higher else "of its priority, but older"
    jobs = "1 waiting job" if len(first) == 1 else f"{len(first)} waiting jobs"
    verb = "comes" if len(first) == 1 else "come"
    because = f"{jobs} of queue {case.queue!r} {verb} before {case.name} ({rank}: {names})"
    step = f"wait for them, or give the job a {case.commands.priority} above theirs"
    return Finding(cause="behind", because=because, next_step=step)


def _owner(group: Object, known: Mapping[str, str]) -> str:
    """Return the name of the job that a PodGroup is of; of another namespace's, as its object is called."""
    owners: list[Object] = group["metadata"].get("ownerReferences", [])
    return next((known.get(each["uid"], each["name"]) for each in owners), name_of(group))


def enqueue(case: Case) -> Finding | None:
    """Say that Volcano does not let the job have pods yet."""
    if case.group is None or phase_of(case.group) not in {"", "Pending"}:
        return None
    for words, what in ((_QUEUE_WORDS, f"queue {case.queue!r}"), (_CLUSTER_WORDS, "the cluster")):
        if said := _last_words(case, words):
            because = f"{case.name} is not admitted to the queue because {what} has no room for all of it ({said})"
            step = f"wait for running jobs to end, or request less ({case.commands.overview})"
            return Finding(cause="enqueue", because=because, next_step=step)
    return None


def _last_words(case: Case, words: str) -> str:
    messages = [event.get("message", "") for event in events_of(case.snapshot, case.group)] if case.group else []
    messages = [message for message in messages if words in message]
    return messages[-1] if messages else ""


def unschedulable(case: Case) -> Finding | None:
    """Repeat what Volcano says itself, where nothing else explains it: of a pod, else of the gang."""
    waits = [pod for pod in case.pods if not node_of(pod)]
    scheduled = [condition(pod, "PodScheduled") for pod in waits]
    refused = [each["message"] for each in scheduled if each.get("reason") == "Unschedulable" and each.get("message")]
    group = condition(case.group, "Unschedulable") if case.group else {}
    # The previous condition stays until the next one is written.
    reported = group.get("message", "") if group.get("status") == "True" and waits else ""
    origin = _ORIGIN.search(reported)
    exact = [each for each in refused if "nodes are unavailable" in each]
    said = next(iter([*exact, *([origin.group(1)] if origin else []), *refused, reported]))
    if not said:
        return None
    placed = sum(each.get("reason") == "Schedulable" for each in scheduled)
    gang = f" ({placed} of its {len(waits)} waiting pods could be placed)" if placed else ""
    because = f"Volcano finds no nodes for {case.name}{gang}: {shortened(said)}"
    step = f"change what the message names, or wait if other jobs use it ({case.commands.overview})"
    return Finding(cause="unschedulable", because=because, next_step=step)
