"""Rules about node pools: network access to their nodes, changes to them, and login."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.instance_types import INSTANCE_TYPES
from infra.pools import GPU_TAINT
from policies.resources import pods
from policies.rule import Finding, Rule, RuleConfig, StackFinding, StackRule, demand, message
from policies.values import Unknown, Value, each, label, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.resources import Resource

NODE_POOL = "alicloud:cs/nodePool:NodePool"
INSTANCE = "alicloud:ecs/instance:Instance"
CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"
_ADDON = "alicloud:cs/kubernetesAddon:KubernetesAddon"
_LOG_ADDONS = frozenset({"logtail-ds", "loongcollector"})
_GPU_FAMILIES = ("ecs.gn", "ecs.ebmgn", "ecs.vgn", "ecs.sgn")
"""Prefixes of Alibaba Cloud's instance types with NVIDIA GPUs (ECS, "Overview of instance families")."""


class LogCollectors(RuleConfig):
    """Configuration of `node-log-collector`."""

    daemon_sets: tuple[str, ...] = ("vlagent",)
    """Names of the DaemonSets that collect logs."""


def pool_name(pool: Resource) -> str:
    """Return the name of a pool, which its nodes carry as a label."""
    return label(read(pool.properties, "nodePoolName"), pool.name)


def is_spot(pool: Resource) -> bool:
    """Whether a pool may have spot nodes."""
    return read(pool.properties, "spotStrategy") not in (None, "NoSpot")


def has_gpus(instance_type: Value) -> bool | Unknown:
    """Whether an instance type has GPUs: by our own table, else by the vendor's naming."""
    if isinstance(instance_type, Unknown):
        return instance_type
    name = label(instance_type)
    known = INSTANCE_TYPES.get(name)
    return known.gpus > 0 if known else name.startswith(_GPU_FAMILIES)


def _tainted(pool: Resource, _: RuleConfig) -> Iterator[Finding]:
    if pool.type != NODE_POOL:
        return
    with_gpus = [has_gpus(each_type) for each_type in each(read(pool.properties, "instanceTypes"))]
    unknown = next((answer for answer in with_gpus if isinstance(answer, Unknown)), None)
    if not any(answer is True for answer in with_gpus):
        if unknown is not None:
            yield unknown
        return
    taints = each(read(pool.properties, "taints"))
    keeping_away = [
        read(taint, "effect") for taint in taints if read(taint, "key") == GPU_TAINT.key or isinstance(taint, Unknown)
    ]
    given = next((effect for effect in keeping_away if isinstance(effect, Unknown)), keeping_away)
    text = message(
        "taints",
        [label(read(taint, "key")) for taint in taints],
        f"a pool with GPUs has the taint {GPU_TAINT.key} with effect NoSchedule",
        f"add {{key: {GPU_TAINT.key}, value: {GPU_TAINT.value}, effect: {GPU_TAINT.effect}}}",
    )
    yield from demand(given, lambda value: bool({"NoSchedule", "NoExecute"} & {*map(label, each(value))}), text)


def _image_changes(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    if resource.type == NODE_POOL:
        for key in ("autoUpgrade", "autoVulFix"):
            given = read(resource.properties, "management", key)
            text = message(
                f"management.{key}", given, "nodes change only by an update of this stack", "set it to false"
            )
            yield from demand(given, lambda value: value in (None, False), text)
        given = read(resource.properties, "imageType")
        chosen = given if given is not None else read(resource.properties, "imageId")
        text = message("imageType", chosen, "must be given: ACK's default changes", "name the operating system")
        yield from demand(chosen, lambda value: value is not None, text)
    if resource.type == CLUSTER:
        given = read(resource.properties, "operationPolicy", "clusterAutoUpgrade", "enabled")
        text = message(
            "operationPolicy.clusterAutoUpgrade.enabled",
            given,
            "the cluster's version changes only by an update of this stack",
            "set it to false",
        )
        yield from demand(given, lambda value: value in (None, False), text)


def _logins(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    if resource.type not in {NODE_POOL, INSTANCE, CLUSTER}:
        return
    for key in ("password", "kmsEncryptedPassword"):
        given = read(resource.properties, key)
        # The value is a secret: no message may quote it.
        text = message(key, "…", "nodes have no passwords", "use a key pair (keyName), or no logins at all")
        yield from demand(given, lambda value: value in (None, ""), text)


def _metadata_tokens(resource: Resource, _: RuleConfig) -> Iterator[Finding]:
    if resource.type == NODE_POOL:
        field, given = (
            "instanceMetadataOptions.httpTokens",
            read(resource.properties, "instanceMetadataOptions", "httpTokens"),
        )
    elif resource.type == INSTANCE:
        field, given = "httpTokens", read(resource.properties, "httpTokens")
    else:
        return
    text = message(
        field,
        given,
        "pods could read the credentials of their node's RAM role with one request",
        "set it to required; what exists keeps its value, so replace it by another",
    )
    yield from demand(given, lambda value: value == "required", text)


def _log_collector(resources: Sequence[Resource], config: LogCollectors) -> Iterator[StackFinding]:
    pools = [resource for resource in resources if resource.type == NODE_POOL]
    if not pools or any(_collects(resource, config) for resource in resources):
        return
    for pool in pools:
        yield (
            pool,
            message(
                "log collector",
                None,
                "the logs of a node are gone with it; a DaemonSet"
                f" ({', '.join(config.daemon_sets)}) that tolerates every taint, or the add-on"
                f" {' or '.join(sorted(_LOG_ADDONS))}, keeps them",
                "enable athanor:monitoring, or declare a collector",
            ),
        )


def _collects(resource: Resource, config: LogCollectors) -> bool:
    if resource.type == _ADDON:
        return read(resource.properties, "name") in _LOG_ADDONS
    if resource.type == CLUSTER:
        addons = each(read(resource.properties, "addons"))
        return any(read(addon, "name") in _LOG_ADDONS and read(addon, "disabled") is not True for addon in addons)
    if resource.kind != "DaemonSet" or resource.object_name not in config.daemon_sets:
        return False
    tolerations = [toleration for pod in pods(resource) for toleration in each(read(pod, "tolerations"))]
    return any(read(each_one, "operator") == "Exists" and not read(each_one, "key") for each_one in tolerations)


RULES = (
    Rule(
        name="gpu-pools-tainted",
        demand="Node pools with GPUs keep away pods that need none.",
        severity="medium",
        config=RuleConfig,
        check=_tainted,
    ),
    Rule(
        name="no-unattended-node-changes",
        demand="The operating system and the Kubernetes version of nodes change only by an update.",
        severity="medium",
        config=RuleConfig,
        check=_image_changes,
    ),
    Rule(
        name="no-node-passwords",
        demand="Nobody logs in to nodes with a password.",
        severity="high",
        config=RuleConfig,
        check=_logins,
    ),
    Rule(
        name="metadata-needs-token",
        demand="The metadata service of nodes answers only requests with a token.",
        severity="high",
        config=RuleConfig,
        check=_metadata_tokens,
    ),
)
STACK_RULES = (
    StackRule(
        name="node-log-collector",
        demand="A stack with node pools has a log collector that runs on every node.",
        severity="medium",
        config=LogCollectors,
        check=_log_collector,
    ),
)
