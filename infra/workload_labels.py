"""Labels of the workloads' pods, shared by the code that declares them and by metrics and logs."""

from __future__ import annotations

import hashlib
import re

JOB_LABEL = "athanor.dev/job"
"""The job's logical name, on its object and its pods."""
OWNER_LABEL = "athanor.dev/owner"
"""The stack that declared the object (workloads/owner.py). Another stack that applies the same object would have to
change it, which the API server refuses as a conflict: nobody adopts what belongs to another."""
KIND_LABEL = "athanor.dev/kind"
"""Name of the class that declared the job, on its object; on its pods what metrics call it."""
ROLE_LABEL = "athanor.dev/role"
"""The pod's role in its job, such as worker or launcher; `server` in a service. Nodes have a label of the same key with
another meaning (infra/node_labels.py)."""
SERVICE_LABEL = "athanor.dev/service"
TRACK_LABEL = "athanor.dev/track"
"""Label of a service's version, where several share it."""
IDLE_SECONDS_LABEL = "athanor.dev/idle-seconds"
"""Label of Deployments that scale to zero: seconds without a request after which they do."""
HOLD_SECONDS_LABEL = "athanor.dev/hold-seconds"
"""Label of the same: the longest time that a request waits for the first pod."""
LONGEST_HOLD_SECONDS = 3_000
"""Longest wait that a service may ask for: the gateway's proxies end no request before that."""
QUEUE_LABEL = "volcano.sh/queue-name"
"""Written by Volcano on every pod of a job, as a label and as an annotation."""
_READABLE_LENGTH = 40


def owner_label(project: str, stack: str) -> str:
    """Return the identifier of a stack in labels and names of objects: readable, and unique per stack.

    Projects and stacks may have names that Kubernetes allows nowhere, and `a-b` of `c` is not `a` of `b-c`.
    """
    readable = re.sub(r"[^a-z0-9]+", "-", f"{project}-{stack}".lower())[:_READABLE_LENGTH].strip("-")
    digest = hashlib.sha256(f"{project}/{stack}".encode()).hexdigest()[:8]
    return f"{readable}-{digest}".lstrip("-")
