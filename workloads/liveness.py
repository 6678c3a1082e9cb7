"""The liveness probe of a training pod: `trainer.heartbeat` reads what the ranks write about their progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infra.manifests import Manifest

_WORK_FOLDER = "/tmp/athanor"  # noqa: S108 - inside the container
WORK_ARGUMENT = f"--work_dir={_WORK_FOLDER}"
"""Where ranks write and the probe reads: an argument of both programs."""
_PERIOD_SECONDS = 60
_FAILURES = 3


def liveness_probe() -> Manifest:
    """Return a probe that fails while a rank is past the limit of what it does and a minute of grace.

    The limit is the program's own: half an hour for the first step, a checkpoint or an evaluation, two minutes for any
    other step (`DistributedConfig` of the trainer), none before training begins. It must fail three times, and may take
    a minute each time: a probe that only waits for a busy node counts as failed, too.
    """
    return {
        "exec": {"command": ["python3", "-m", "trainer.heartbeat", WORK_ARGUMENT]},
        "periodSeconds": _PERIOD_SECONDS,
        "timeoutSeconds": _PERIOD_SECONDS,
        "failureThreshold": _FAILURES,
    }
