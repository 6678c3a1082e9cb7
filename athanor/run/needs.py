"""Checks that the Secrets and claims that a job names exist, so that no pod waits for them forever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from athanor.runs.cluster import Cluster
    from workloads.job_args import JobArgs


def check_needs(args: JobArgs, cluster: Cluster) -> None:
    """Refuse a job whose Secrets or claims do not exist, as far as this user may list them.

    Args:
        args: The job, whose names are those of a command line.
        cluster: The cluster, in the namespace of the job.

    Raises:
        RefusalError: naming the first that does not exist, and those that do.
    """
    secrets = [*map(str, args.secrets), *(str(each.secret) for each in args.secret_files)]
    _check(cluster, "--secret", "Secret", secrets)
    _check(cluster, "--volume", "PersistentVolumeClaim", [str(volume.claim) for volume in args.volumes])


def _check(cluster: Cluster, option: str, kind: str, names: Iterable[str]) -> None:
    needed = list(names)
    existing = _existing(cluster, kind) if needed else None
    if existing is None:
        return
    for name in needed:
        if name not in existing:
            limit = f"namespace {cluster.namespace} has no {kind} of that name"
            others = f", or name one that exists: {', '.join(sorted(existing))}" if existing else ""
            raise RefusalError(option, name, limit, f"create it{others}")


def _existing(cluster: Cluster, kind: str) -> set[str] | None:
    """Return the names of a kind; None where this user may not list them."""
    try:
        # In columns: the values of Secrets stay where they are.
        lines = cluster.run("get", kind, "--no-headers", "--ignore-not-found")
    except RefusalError:
        return None
    return {line.split()[0] for line in lines.splitlines() if line.strip()}
