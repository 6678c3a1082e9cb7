"""TF_CONFIG, the environment variable by which TensorFlow's processes find each other.

Format: TensorFlow, tf.distribute.cluster_resolver.TFConfigClusterResolver; Volcano's tensorflow plugin writes it into
the pods, from the names of the roles and its port.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from workloads.volcano_job import host

if TYPE_CHECKING:
    from collections.abc import Mapping

TF_CONFIG = "TF_CONFIG"
"""Name of the variable."""
CLUSTER_ROLES = ("ps", "worker", "chief", "evaluator")
"""Roles that TensorFlow knows, in the order that the plugin writes them."""


def cluster_spec(job_name: str, replicas: Mapping[str, int], port: int) -> dict[str, list[str]]:
    """Return the address of every process by role.

    Args:
        job_name: Name of the job's object.
        replicas: Number of pods by role.
        port: Port that every process listens on.
    """
    return {
        role: [f"{host(job_name, role, index)}:{port}" for index in range(replicas[role])]
        for role in CLUSTER_ROLES
        if replicas.get(role)
    }


def tf_config(cluster: Mapping[str, list[str]], role: str, index: int) -> str:
    """Return TF_CONFIG of the pod `index` of a role, as it is in the environment: JSON without spaces.

    Raises:
        ValueError: the cluster has no such pod; TensorFlow would wait for itself forever.
    """
    if index not in range(len(cluster.get(role, ()))):
        raise ValueError(f"{role} {index}: is not a process of the cluster, which has {dict(cluster)}")
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}}, separators=(",", ":"))
