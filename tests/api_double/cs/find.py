"""Look clusters and node pools up, with the errors that callers know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.api_double.protocol import ApiError

if TYPE_CHECKING:
    from tests.api_double.account import Account, Record


def cluster_of(account: Account, cluster_id: str) -> Record:
    """Return a cluster.

    Raises:
        ApiError: ErrorClusterNotFound.
    """
    cluster = account.find("cluster", cluster_id)
    if cluster is None:
        forget_parts(account, cluster_id)
        raise ApiError(404, "ErrorClusterNotFound", f"cluster {cluster_id} not found")
    return cluster


def forget_parts(account: Account, cluster_id: str) -> None:
    """Forget what cannot be without its cluster."""
    for kind in ("node_pool", "addon", "task"):
        for identifier, part in account.all(kind).items():
            if part["_cluster"] == cluster_id:
                account.remove(kind, identifier)


def running_cluster(account: Account, cluster_id: str) -> Record:
    """Return a cluster that can be changed now.

    Raises:
        ApiError: ErrorClusterNotFound, or ErrorClusterState while it is being created, changed or deleted.
    """
    cluster = cluster_of(account, cluster_id)
    if cluster["state"] != "running":
        raise ApiError(400, "ErrorClusterState", f"cluster {cluster_id} is {cluster['state']}, not running")
    return cluster


def node_pool_of(account: Account, cluster_id: str, pool_id: str) -> Record:
    """Return a node pool of a cluster.

    Raises:
        ApiError: ErrorNodePoolNotFound.
    """
    pool = account.find("node_pool", pool_id)
    if pool is None or pool["_cluster"] != cluster_id:
        raise ApiError(404, "ErrorNodePoolNotFound", f"node pool {pool_id} not found in cluster {cluster_id}")
    return pool
