"""The local cluster: a real Kubernetes cluster on this machine, in namespaces of its own."""

from tools.local_cluster.cluster import ClusterStatus, ComponentStatus, LocalCluster
from tools.local_cluster.errors import ClusterError
from tools.local_cluster.preflight import Failure, PreflightError, Requirements

__all__ = [
    "ClusterError",
    "ClusterStatus",
    "ComponentStatus",
    "Failure",
    "LocalCluster",
    "PreflightError",
    "Requirements",
]
