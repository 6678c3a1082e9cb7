"""The liveness probe of a training pod, which reads the progress that the ranks write."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from workloads.any_image import MODULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.manifests import Manifest

_WORK_FOLDER = "/tmp/athanor"  # noqa: S108 - inside the container
_WORK_ARGUMENT = f"--work_dir={_WORK_FOLDER}"
"""Folder that ranks of the trainer write and its probe reads: an argument of both programs."""
_READ_HEARTBEATS = f"""\
import os, runpy
reader = "{MODULES.path}/athanor_heartbeat.py"
if os.path.exists(reader):
    runpy.run_path(reader, run_name="__main__")
"""
"""Reads the files of any program that uses athanor_run; a platform of an earlier release has no reader."""
_PERIOD_SECONDS = 60
_FAILURES = 3


def heartbeat_arguments(program: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments for a program's heartbeats: of the trainer where to write them, of others none."""
    return (_WORK_ARGUMENT,) if is_platform_program(program) else ()


def liveness_probe(program: Sequence[str]) -> Manifest:
    """Return a probe that fails while a rank is past the limit of what it does and a minute of grace.

    The limit is the program's own: half an hour for the first step, a checkpoint or an evaluation, two minutes for any
    other step of the trainer (`DistributedConfig`) and ten of other programs (`Watched` in athanor_run), none before
    training begins. A program that writes no heartbeats is never ended. It must fail three times, and may take
    a minute each time: a probe that only waits for a busy node counts as failed, too.
    """
    trainers = ["python3", "-m", "trainer.heartbeat", _WORK_ARGUMENT]
    command = trainers if is_platform_program(program) else ["python3", "-c", _READ_HEARTBEATS]
    return {
        "exec": {"command": command},
        "periodSeconds": _PERIOD_SECONDS,
        "timeoutSeconds": _PERIOD_SECONDS,
        "failureThreshold": _FAILURES,
    }


def is_platform_program(program: Sequence[str]) -> bool:
    """Return whether it is one of the platform's own programs, which are in its image, or in one made of that."""
    return any(word == "-m" and module.startswith("trainer.") for word, module in pairwise(program))
