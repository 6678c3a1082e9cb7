"""Recreate a job's object in the cluster, as it is: for jobs whose program is not at hand, such as another team's."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, cast

from infra.errors import RefusalError
from tools.operations.job_code import pods_of_run
from tools.operations.objects import Object, name_of
from tools.paths import paths
from tools.process import CommandError

if TYPE_CHECKING:
    from pathlib import Path

    from tools.kubectl import Kubectl
    from tools.progress import Progress

KIND = "jobs.batch.volcano.sh"
_POLL_SECONDS = 1.0
_KEPT = ("name", "namespace", "labels", "annotations", "ownerReferences")
"""Of an object's metadata: what somebody wrote, and not the API server."""


def check_allowed(kubectl: Kubectl, namespace: str) -> None:
    """Refuse what would end half-way, with the job deleted.

    Raises:
        RefusalError: this user may not delete or create jobs there.
    """
    for verb in ("delete", "create"):
        try:
            kubectl.run("auth", "can-i", verb, KIND, "-n", namespace, "--quiet")
        except CommandError:
            limit = f"this user is not allowed to {verb} jobs there"
            raise RefusalError("namespace", namespace, limit, f"get the permission to {verb} {KIND}") from None


def recreate(kubectl: Kubectl, job: Object, report: Progress) -> None:
    """Delete a job with its pods and create it as it was; what owns its fields stays their owner.

    Raises:
        CommandError: the cluster refused. If the job is deleted by then, the file that was named has it.
    """
    namespace, name = job["metadata"]["namespace"], name_of(job)
    whole: Object = json.loads(
        kubectl.run("get", KIND, name, "-n", namespace, "-o", "json", "--show-managed-fields=true")
    )
    file = _written_down(whole)
    report.detail(f"deleting the job; if this is interrupted, `kubectl create -f {file}` creates it again")
    kubectl.run("delete", KIND, name, "-n", namespace, "--cascade=foreground", "--wait=false")
    _await_end(kubectl, whole, report)
    kubectl.run(*_creation(whole), "-f", str(file))
    file.unlink()


def _written_down(job: Object) -> Path:
    """Write down what is to be created, before anything is deleted."""
    manifest: dict[str, Any] = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {key: job["metadata"][key] for key in _KEPT if key in job["metadata"]},
        "spec": job["spec"],
    }
    folder = paths().home / "reruns"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / f"{job['metadata']['namespace']}.{name_of(job)}.json"
    file.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return file


def _creation(job: Object) -> list[str]:
    """Return the words that create it: as the one who applied it, so that a program's next update finds its own."""
    fields = cast("list[dict[str, str]]", job["metadata"].get("managedFields", []))
    owners = [each["manager"] for each in fields if each["operation"] == "Apply" and not each.get("subresource")]
    return ["apply", "--server-side", f"--field-manager={owners[0]}"] if owners else ["create"]


def _await_end(kubectl: Kubectl, job: Object, report: Progress) -> None:
    """Wait until nothing is left of it: new pods would have the names of the old ones."""
    namespace, name, uid = job["metadata"]["namespace"], name_of(job), job["metadata"]["uid"]
    left = -1
    while any(each["metadata"]["uid"] == uid for each in kubectl.items(KIND, namespace)):
        pods = len(pods_of_run(kubectl, namespace, name, uid))
        if pods != left:
            report.detail(f"{name}: {pods} of its pods are still there")
            left = pods
        time.sleep(_POLL_SECONDS)
