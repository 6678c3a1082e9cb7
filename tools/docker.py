"""Detection of a docker on this machine that can build."""

from __future__ import annotations

import shutil

from tools.process import CommandError, ProgramTimeoutError, run

DAEMON_TIMEOUT_SECONDS = 10
BUILDKIT = {"DOCKER_BUILDKIT": "1"}
"""The Dockerfile mounts a download cache, which docker's older builder does not know."""


def docker_builds() -> bool:
    """Return whether a docker daemon answers and its client has BuildKit, which some distributions package apart."""
    if not shutil.which("docker"):
        return False
    try:
        run(["docker", "version", "--format", "{{.Server.Version}}"], timeout_seconds=DAEMON_TIMEOUT_SECONDS)
        run(["docker", "build", "--help"], env=BUILDKIT, timeout_seconds=DAEMON_TIMEOUT_SECONDS)
    except (CommandError, ProgramTimeoutError):
        return False
    return True
