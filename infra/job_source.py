"""Names that concern the source of a job's code, shared with the commands that inspect or rerun jobs."""

import re

COMMIT = re.compile(r"[0-9a-f]{40}")
"""A full hash of git's: what decides which code runs is never shortened."""
CONTAINER = "source"
"""Name of the init container that fetches the code."""
RUN_ANNOTATION = "scheduling.k8s.io/group-name"
"""Volcano's mark of the run that a pod belongs to: the job's name and uid, so a job created again has another."""
COMMIT_VARIABLE = "ATHANOR_SOURCE_COMMIT"
"""Environment variable of that container: a full hash to fetch instead of what the job asks for, or SAME."""
SAME = "same"
"""The commit of the run before."""
COMMIT_KEY = "commit"
"""Key of that value in the ConfigMap of `commit_choice`."""


def commit_choice(job_name: str) -> str:
    """Return the name of the ConfigMap that chooses the commit of a job's next run, if there is one."""
    return f"{job_name}-source"
