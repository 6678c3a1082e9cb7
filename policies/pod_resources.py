"""Rules about the resources that containers request, and about checkpoints of training on spot nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.node_labels import POOL_LABEL
from policies.node_pools import NODE_POOL, is_spot, pool_name
from policies.resources import containers, pods
from policies.rule import Finding, Rule, RuleConfig, StackFinding, StackRule, demand, message
from policies.values import Unknown, each, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.resources import Resource

_TRAINING = frozenset({"Job", "MPIJob", "PyTorchJob", "TFJob", "TrainJob"})


def _requests(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for container in containers(resource):
        for name in ("cpu", "memory"):
            requested = read(container.value, "resources", "requests", name)
            limit = read(container.value, "resources", "limits", name)
            # Kubernetes takes a limit without a request for both.
            given = limit if requested is None else requested
            field = f"container {container.name}: resources.requests.{name}"
            text = message(field, given, "must be given", "request what the container needs in normal operation")
            yield from demand(given, lambda value: value is not None, text)


def _memory_limits(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    for container in containers(resource):
        given = read(container.value, "resources", "limits", "memory")
        field = f"container {container.name}: resources.limits.memory"
        text = message(
            field, given, "must be given", "limit it, so that a leak ends this container and not its neighbours"
        )
        yield from demand(given, lambda value: value is not None, text)


def _spot_checkpoints(resources: Sequence[Resource], _: RuleConfig) -> Iterator[StackFinding]:
    spot = {pool_name(resource) for resource in resources if resource.type == NODE_POOL and is_spot(resource)}
    for resource in resources:
        if resource.kind not in _TRAINING:
            continue
        for pod in pods(resource):
            pool = read(pod, "nodeSelector", POOL_LABEL)
            volumes = [read(volume, "persistentVolumeClaim", "claimName") for volume in each(read(pod, "volumes"))]
            if isinstance(pool, Unknown):
                yield resource, pool
            elif pool in spot and not any(volumes):
                yield (
                    resource,
                    message(
                        "volumes",
                        volumes,
                        f"pool {pool} consists of spot nodes, which are reclaimed with their disks",
                        "mount a PersistentVolumeClaim for checkpoints, or use a pool of on-demand nodes",
                    ),
                )


RULES = (
    Rule(
        name="resource-requests",
        demand="Every container requests CPU and memory.",
        severity="medium",
        config=RuleConfig,
        check=_requests,
    ),
    Rule(
        name="memory-limits",
        demand="Every container has a memory limit.",
        severity="medium",
        config=RuleConfig,
        check=_memory_limits,
    ),
)
STACK_RULES = (
    StackRule(
        name="spot-jobs-keep-checkpoints",
        demand="Training on spot nodes mounts a persistent volume.",
        severity="high",
        config=RuleConfig,
        check=_spot_checkpoints,
    ),
)
