"""Removal of finished jobs' pods: a CronJob with no other right than to delete pods of the workloads' namespace.

Volcano can delete a finished Job as a whole (ttlSecondsAfterFinished), but a stack would create it again. Nothing in
Kubernetes or Volcano removes only the pods: docs/decisions/0009-finished-jobs-stay-their-pods-go.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.kubernetes.access import role_manifests, rule, service_account_manifest
from infra.kubernetes.pods import container_security, pod_security, resources
from infra.manifests import Manifest, resource
from infra.namespaces import CLEAN_UP_NAMESPACE, namespace_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.clean_up import CleanUpSettings

NAMESPACE = CLEAN_UP_NAMESPACE
NAME = "job-cleanup"
TTL_LABEL = "athanor.dev/ttl-seconds-after-finished"
"""Label of Volcano Jobs with the seconds that their pods stay after the end. No part of the spec: a change of it must
not run the job again."""
_MANY_PODS_SECONDS = 900
"""Longest run: thousands of pods go in a minute, and one that hangs must not keep the next one from starting."""


def permission_manifests(workloads: str) -> list[Manifest]:
    """Return the ServiceAccount, and the Role in the workloads' namespace that is bound to it."""
    rules = [rule("batch.volcano.sh", "jobs", ("list",)), rule("core", "pods", ("list", "delete"))]
    return [
        service_account_manifest({"name": NAME, "namespace": NAMESPACE}),
        *role_manifests({"name": NAME, "namespace": workloads}, rules, (NAME, NAMESPACE)).values(),
    ]


def schedule(interval_minutes: int) -> str:
    """Return the cron line of an interval that divides an hour."""
    return "0 * * * *" if interval_minutes == 60 else f"*/{interval_minutes} * * * *"


def cron_job_manifest(image: str, workloads: str, interval_minutes: int) -> Manifest:
    """Return the CronJob that runs trainer/helpers/job_cleanup.py on the namespace `workloads`."""
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "athanor"}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "schedule": schedule(interval_minutes),
            "concurrencyPolicy": "Forbid",
            # Without it, a cluster that was off for a hundred intervals would never start another run.
            "startingDeadlineSeconds": 60,
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {
                "spec": {
                    # What fails is tried again by the next run.
                    "backoffLimit": 0,
                    "activeDeadlineSeconds": _MANY_PODS_SECONDS,
                    "template": {"metadata": {"labels": labels}, "spec": _pod_spec(image, workloads)},
                }
            },
        },
    }


def _pod_spec(image: str, workloads: str) -> Manifest:
    program = ["python3", "-m", "trainer.helpers.job_cleanup", f"--namespace={workloads}", f"--ttl_label={TTL_LABEL}"]
    return {
        "restartPolicy": "Never",
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": pod_security(65532, owns_volumes=False),
        "containers": [
            {
                "name": NAME,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": program,
                "resources": resources("20m", "64Mi", "256Mi"),
                "securityContext": container_security(),
            }
        ],
    }


@dataclass(frozen=True, kw_only=True)
class JobCleanUpArgs:
    """Arguments of JobCleanUp."""

    settings: CleanUpSettings
    namespace: str
    """Namespace of the workloads."""
    image: str
    """The platform's trainer image."""
    depends_on: Sequence[pulumi.Resource] = ()
    """Dependencies: the workloads' namespace, the nodes, Volcano's CRDs."""


class JobCleanUp(pulumi.ComponentResource):
    """A CronJob that removes the pods of jobs whose time after the end is over; their Job objects stay."""

    def __init__(self, name: str, args: JobCleanUpArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:JobCleanUp", name, None, opts)
        manifest = cron_job_manifest(args.image, args.namespace, args.settings.interval_minutes)
        # A namespace of its own: that of the workloads lets no pod reach the API server.
        namespace = self._child("namespace", namespace_manifest(NAMESPACE), args.depends_on)
        permissions = [
            self._child(each["kind"].lower(), each, [namespace]) for each in permission_manifests(args.namespace)
        ]
        self._child("cron-job", manifest, permissions)
        self.register_outputs({"namespace": NAMESPACE})

    def _child(self, name: str, manifest: Manifest, depends_on: Sequence[pulumi.Resource]) -> pulumi.Resource:
        return resource(f"{NAME}-{name}", manifest, pulumi.ResourceOptions(parent=self, depends_on=depends_on))
