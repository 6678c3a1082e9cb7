"""What the tests of all kinds of jobs share: a platform's part of a job, and ways to look into its manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi_kubernetes as kubernetes

from infra.platform import Platform
from workloads.job import named_job_manifest
from workloads.pods import Claims
from workloads.volcano_job import JobShape, ResolvedJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.manifests import Manifest
    from workloads.job_args import JobArgs

RESOLVED = ResolvedJob(
    namespace="athanor",
    queue="training",
    image="own:1",
    platform_image="trainer:1",
    claims=Claims(data="data", output="output"),
)


def manifest_of(args: JobArgs, shape: Callable[[str], JobShape], resolved: ResolvedJob = RESOLVED) -> Manifest:
    """Return the Volcano Job named `job-<hash>`."""
    return named_job_manifest("job", args, lambda job_name, _: shape(job_name), resolved)


def task(manifest: Manifest, role: str) -> dict[str, Any]:
    """Return the task of a role."""
    [found] = [task for task in manifest["spec"]["tasks"] if task["name"] == role]
    return found


def pod(manifest: Manifest, role: str) -> dict[str, Any]:
    """Return the pod spec of a role."""
    return task(manifest, role)["template"]["spec"]


def environment(manifest: Manifest, role: str) -> dict[str, str]:
    """Return the environment of a role's container."""
    [container] = pod(manifest, role)["containers"]
    return {entry["name"]: entry["value"] for entry in container["env"]}


def plain_platform() -> Platform:
    """Return a platform that knows nothing of its nodes."""
    return Platform(
        provider=kubernetes.Provider("cluster", kubeconfig="{}"),
        namespace="athanor",
        queue="training",
        data_claim="data",
        output_claim="output",
        trainer_image="trainer:1",
        tensorflow_image="tensorflow:1",
    )
