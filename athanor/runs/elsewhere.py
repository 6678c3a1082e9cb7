"""Runs in other clusters and namespaces, which must not be mistaken for deleted ones."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from athanor.inspection.objects import JOBS
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from athanor.runs.cluster import Cluster


def host(server: str) -> str:
    """Return host and port of an API server, which a run records, without possible credentials."""
    address = urlsplit(server if "//" in server else f"//{server}")
    return address.netloc.rpartition("@")[2]


def is_elsewhere(recorded: Mapping[str, str], cluster: Cluster) -> bool:
    """Return whether a run was started in another cluster or namespace; False where it did not record that."""
    if "server" not in recorded:
        return False
    return (recorded["server"], recorded["namespace"]) != (host(cluster.server), cluster.namespace)


def check_is_here(cluster: Cluster, run: str, recorded: Mapping[str, str]) -> None:
    """Refuse a run of another cluster; one whose job is here is here, since a cluster may have several addresses.

    Args:
        cluster: The one that a command names, in the namespace of the run.
        run: The run's name.
        recorded: The outputs of its stack.

    Raises:
        RefusalError: it is of another cluster, or this one does not answer.
    """
    if is_elsewhere(recorded, cluster) and cluster.find(JOBS, recorded["job_name"]) is None:
        raise of_another(run, recorded["server"], cluster)


def check_can_be_deleted(cluster: Cluster, run: str, recorded: Mapping[str, str]) -> None:
    """Refuse to delete the objects of a run in a cluster that is another one, or that does not answer.

    Raises:
        RefusalError: naming what forgets a run whose cluster no longer exists.
    """
    if "job_name" not in recorded:
        return
    try:
        check_is_here(cluster, run, recorded)
        cluster.find(JOBS, recorded["job_name"])
    except RefusalError as refusal:
        fix = f"{refusal.fix}; if its cluster is gone for good, `athanor delete {run} --forget` only forgets the run"
        raise RefusalError(refusal.field, refusal.value, refusal.limit, fix) from None


def of_another(run: str, server: str, cluster: Cluster) -> RefusalError:
    """Return the refusal of a run that another cluster has."""
    limit = f"was started in the cluster at {server}, and this is the one at {host(cluster.server)}"
    return RefusalError("run", run, limit, "name its cluster with --context or --kubeconfig")
