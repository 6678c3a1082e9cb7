"""The local GPU step: the hardware check (`trainer.hardware_check`) on this machine, if it has GPUs."""

from __future__ import annotations

import json
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from tools.acceptance.findings import SkippedError, StepFailedError
from tools.paths import REPOSITORY
from tools.process import CommandError, ProgramTimeoutError, run
from trainer.hardware_check import report

if TYPE_CHECKING:
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site

_TESTED = REPOSITORY / ".venv-test" / "bin" / "python"
"""The environment with torch, once `make venv-test` has created it."""
MINUTES = 8
_MARGIN_SECONDS = 120


def this_machine(_: Site, findings: Findings) -> None:
    """Run what a single node can show.

    Raises:
        SkippedError: there is no GPU here.
        StepFailedError: a step of the check failed.
    """
    try:
        listed = run(["nvidia-smi", "-L"], timeout_seconds=60)
    except (OSError, CommandError, ProgramTimeoutError) as error:
        raise SkippedError(f"nvidia-smi lists no GPU here: {error}") from error
    findings.saw("nvidia-smi -L", listed)
    findings.figure("MIG instances", sum("MIG " in line for line in listed.splitlines()))
    python = str(_TESTED if _TESTED.exists() else sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        words = [
            python,
            "-m",
            "trainer.hardware_check",
            "--minutes",
            str(MINUTES),
            "--output",
            f"{folder}/report.json",
        ]
        try:
            said = run(words, cwd=REPOSITORY, timeout_seconds=60 * MINUTES + _MARGIN_SECONDS)
        except CommandError as error:  # a step failed, which its report says
            said = error.output
    findings.saw(f"python -m trainer.hardware_check --minutes {MINUTES}", said)
    judge(findings, said, fix="`make venv-test` creates an environment with torch; then run this again")


def judge(findings: Findings, said: str, *, fix: str, of: str = "") -> None:
    """Note the figures of a hardware check, and what it could not do.

    Args:
        findings: Get the figures.
        said: What it printed, or the log of its pod.
        fix: What helps where it printed no report.
        of: Begins the names of the figures.

    Raises:
        StepFailedError: a step of it failed, or it did not come to its report.
    """
    begin = f'{{"{report.KEY}"'
    line = next((begin + line.partition(begin)[2] for line in said.splitlines() if begin in line), None)
    if line is None:
        raise StepFailedError(f"the hardware check printed no report. Fix: {fix}")
    steps: list[dict[str, Any]] = json.loads(line)[report.KEY]["steps"]
    for step in steps:
        findings.figure(of + step["title"], step["figures"] or f"{step['outcome']}: {step['reason']}")
    if failed := [f"{step['title']}: {step['reason']}" for step in steps if step["outcome"] == "failed"]:
        raise StepFailedError("; ".join(failed))
