"""Recreation of a job's object in the cluster, for jobs whose program is not at hand, such as another team's."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from athanor.inspection.objects import JOBS, Object, name_of
from athanor.inspection.reader import pods_of_run
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from athanor.inspection.reader import Asked

_POLL_SECONDS = 1.0
_KEPT = ("name", "namespace", "labels", "annotations", "ownerReferences")
"""Fields of an object's metadata that a client wrote, not the API server."""


def check_allowed(cluster: Asked, namespace: str, verbs: Sequence[str] = ("delete", "create")) -> None:
    """Refuse what would end half-way, with the job deleted.

    Raises:
        RefusalError: this user may not do that to jobs there.
    """
    for verb in verbs:
        try:
            cluster.run("auth", "can-i", verb, JOBS, "-n", namespace, "--quiet")
        except cluster.failure:
            limit = f"this user is not allowed to {verb} jobs there"
            raise RefusalError("namespace", namespace, limit, f"get the permission to {verb} {JOBS}") from None


def recreate(
    cluster: Asked,
    job: Object,
    folder: Path,
    say: Callable[[str], None],
    change: Callable[[Object], Object] = lambda manifest: manifest,
) -> None:
    """Delete a job with its pods and create it as it was; what owns its fields stays their owner.

    `cluster.failure` is raised where it refuses; if the job is deleted by then, the file that was named has it.

    Args:
        cluster: Where it is.
        job: The object.
        folder: Where it is written down in the meantime.
        say: Shows progress.
        change: Makes another manifest of its manifest; default: the same.
    """
    namespace, name = job["metadata"]["namespace"], name_of(job)
    whole: Object = json.loads(
        cluster.run("get", JOBS, name, "-n", namespace, "-o", "json", "--show-managed-fields=true")
    )
    file = _written_down(change(_manifest(whole)), folder)
    say(f"deleting the job; if this is interrupted, `kubectl create -f {file}` creates it again")
    cluster.run("delete", JOBS, name, "-n", namespace, "--cascade=foreground", "--wait=false")
    _await_end(cluster, whole, say)
    cluster.run(*_creation(_owner(whole)), "-f", str(file))
    file.unlink()


def create(cluster: Asked, manifest: Object, owner: str | None, folder: Path) -> None:
    """Create a job that is gone; `cluster.failure` is raised where the cluster refuses.

    Args:
        cluster: Where it was.
        manifest: The job.
        owner: Who applied its fields, and owns them again; None: nobody, it was only created.
        folder: Where it is written down until it is created.
    """
    file = _written_down(_manifest(manifest), folder)
    cluster.run(*_creation(owner), "-f", str(file))
    file.unlink()


def _manifest(job: Object) -> dict[str, Any]:
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {key: job["metadata"][key] for key in _KEPT if key in job["metadata"]},
        "spec": job["spec"],
    }


def _written_down(manifest: Object, folder: Path) -> Path:
    """Write down what is to be created, before anything is deleted."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / f"{manifest['metadata']['namespace']}.{name_of(manifest)}.json"
    file.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return file


def _owner(job: Object) -> str | None:
    """Return who applied a job; None if somebody created it."""
    fields: list[dict[str, str]] = job["metadata"].get("managedFields", [])
    owners = [each["manager"] for each in fields if each["operation"] == "Apply" and not each.get("subresource")]
    return owners[0] if owners else None


def _creation(owner: str | None) -> list[str]:
    """Return the words that create it, by its former field manager, so that a later update of a program owns it."""
    return ["apply", "--server-side", f"--field-manager={owner}"] if owner else ["create"]


def _await_end(cluster: Asked, job: Object, say: Callable[[str], None]) -> None:
    """Wait until nothing is left of it: new pods would have the names of the old ones."""
    namespace, name, uid = job["metadata"]["namespace"], name_of(job), job["metadata"]["uid"]
    left = -1
    while any(each["metadata"]["uid"] == uid for each in cluster.items(JOBS, namespace)):
        pods = len(pods_of_run(cluster.items, namespace, name, uid))
        if pods != left:
            say(f"{name}: {pods} of its pods are still there")
            left = pods
        time.sleep(_POLL_SECONDS)
