"""A job's name in the cluster: the given one and a hash of the job's content, so that a changed job is a new object."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from workloads.volcano_job import job_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.manifests import Manifest
    from workloads.job_args import JobArgs
    from workloads.resolved import ResolvedJob
    from workloads.volcano_job import JobShape


def named_job_manifest(
    name: str, args: JobArgs, shape: Callable[[str, ResolvedJob], JobShape], resolved: ResolvedJob
) -> Manifest:
    """Return the Volcano Job under `name` and the hash of its content.

    A changed job is a new object, never a patched one: Volcano would not carry most changes to pods that run.
    """
    content = job_manifest(name, name, args, shape(name, resolved), resolved)
    object_name = f"{name}-{content_digest(content, args.rerun)}"
    return job_manifest(name, object_name, args, shape(object_name, resolved), resolved)


def content_digest(manifest: Manifest, rerun: int) -> str:
    """Return 8 hex digits of the SHA-256 of what a job does: its spec, and which repetition of it this is."""
    content = [manifest["spec"], *([rerun] if rerun else [])]
    text = json.dumps(content if rerun else manifest["spec"], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
