"""The scheduler's configuration file: the enabled actions and plugins of Volcano, with reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from infra.gpu.sharing import GPU_RESOURCE, SHARED_GPU_RESOURCE
from infra.volcano import NAMESPACE, SCHEDULER

if TYPE_CHECKING:
    from infra.manifests import Manifest

CONFIG_FILE = "volcano-scheduler.conf"

_PACKED = {GPU_RESOURCE: 10, SHARED_GPU_RESOURCE: 10}
_PACKING: dict[str, Any] = {
    "binpack.weight": 1,
    "binpack.resources": ", ".join(_PACKED),
    **{f"binpack.resources.{name}": weight for name, weight in _PACKED.items()},
}

# docs/decisions/0008-queues-that-lend-and-take-back.md names the part of Volcano's source behind each choice below.
SCHEDULER_CONFIG: dict[str, Any] = {
    # Upstream's default is enqueue, allocate, backfill: a high priority or a queue's share would never take back.
    "actions": "enqueue, allocate, preempt, reclaim, backfill",
    # One tier: Volcano asks a later one about victims only when an earlier one has found none, and about admission only
    # when an earlier one had no opinion. With conformance in a tier before capacity, it alone would choose the victims.
    "tiers": [
        {
            "plugins": [
                {"name": "priority"},
                # A gang's veto would keep all pods of a running job forever: none of them is surplus. Its job
                # starts again as a whole when it loses one (the job's policies).
                {"name": "gang", "enablePreemptable": False, "enableReclaimable": False},
                {"name": "conformance"},
                # The one that `enqueue` asks: a job beyond the namespace's ResourceQuota waits without pods, and
                # reports why. There is no `overcommit`, and capacity has no say: both let a job have pods only when
                # there is room, and without pods a job can neither preempt, nor reclaim, nor be seen by an autoscaler.
                {"name": "resourcequota"},
                {"name": "drf", "enablePreemptable": False},
                {"name": "predicates"},
                {"name": "capacity", "enableJobEnqueued": False},
                # Its defaults draw pods to the emptiest node: five thousand pods of one GPU were seen to lie on all of
                # a thousand nodes with eight each.
                {"name": "nodeorder", "arguments": {"leastrequested.weight": 0, "balancedresource.weight": 0}},
                # Upstream's packs by CPU and memory alone. What is left of GPUs should be whole nodes. Preferred spread
                # still wins: its weight is 2.
                {"name": "binpack", "arguments": _PACKING},
                {
                    "name": "network-topology-aware",
                    # Jobs that ask for no closeness are placed as if there were no HyperNodes.
                    "arguments": {"hypernode.binpack.normal-pod.enable": False},
                },
            ]
        },
    ],
}


def scheduler_config_text() -> str:
    """Return the scheduler's configuration file."""
    return yaml.safe_dump(SCHEDULER_CONFIG, sort_keys=False)


def scheduler_config_manifest(config: str) -> Manifest:
    """Return the ConfigMap of the scheduler's configuration."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{SCHEDULER}-config", "namespace": NAMESPACE},
        "data": {CONFIG_FILE: config},
    }
