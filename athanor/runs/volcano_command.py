"""Volcano's commands to a job's controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from athanor.inspection.objects import Object


def command(namespace: str, job: Object, action: str) -> Object:
    """Return a Command (Volcano, staging/src/volcano.sh/apis/pkg/apis/bus/v1alpha1); its controller deletes it."""
    owner = {name: job[name] for name in ("apiVersion", "kind")}
    owner.update({name: job["metadata"][name] for name in ("name", "uid")})
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {
            "generateName": f"{job['metadata']['name'][:40]}-{action.lower()}-",
            "namespace": namespace,
            "ownerReferences": [owner],
        },
        "action": action,
        "target": {**owner, "controller": True},
    }
