"""The GPUs of the machine that this runs on, where it has some: a job on them, and NCCL between them."""

from __future__ import annotations

import json
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from tools.acceptance.findings import SkippedError, StepFailedError
from tools.paths import REPOSITORY
from tools.process import CommandError, ProgramTimeoutError, run
from trainer.helpers import hardware

if TYPE_CHECKING:
    from tools.acceptance.findings import Findings
    from tools.acceptance.site import Site

_TESTED = REPOSITORY / ".venv-test" / "bin" / "python"
"""The environment with torch, once `make venv-test` has created it."""
_BUSY_SECONDS = 10
_SECONDS = 900
_FEWEST_RANKS = 2


def this_machine(_: Site, findings: Findings) -> None:
    """Run what a single node can show.

    Raises:
        SkippedError: there is no GPU here.
        StepFailedError: torch does not reach a GPU that nvidia-smi lists.
        CommandError: a program failed.
    """
    try:
        listed = run(["nvidia-smi", "-L"], timeout_seconds=60)
    except (OSError, CommandError, ProgramTimeoutError) as error:
        raise SkippedError(f"nvidia-smi lists no GPU here: {error}") from error
    findings.saw("nvidia-smi -L", listed)
    findings.figure("MIG instances", sum("MIG " in line for line in listed.splitlines()))
    python = str(_TESTED if _TESTED.exists() else sys.executable)
    words = [python, "-m", "trainer.helpers.hardware", f"--busy_seconds={_BUSY_SECONDS}"]
    answer = run(words, cwd=REPOSITORY, timeout_seconds=_SECONDS)
    findings.saw(" ".join(words[1:]), answer)
    report: dict[str, Any] = json.loads(answer)[hardware.KEY]
    torch = report["torch"]
    if torch is None:
        raise StepFailedError(
            f"{python} has no torch. Fix: `make venv-test` creates an environment with it; then run this again"
        )
    findings.figure("driver", report["driver"])
    findings.figure("GPUs", torch["gpus"])
    if not torch["gpus"]:
        raise StepFailedError(f"torch sees no GPU: {torch.get('error')}")
    _nccl(findings, python, len(torch["gpus"]))


def _nccl(findings: Findings, python: str, gpus: int) -> None:
    if gpus < _FEWEST_RANKS:
        findings.figure("NCCL", "skipped: there is only one GPU")
        return
    with tempfile.TemporaryDirectory() as folder:
        flags = {"network": "this-machine", "data_dir": folder, "output_dir": folder, "num_gpu": str(gpus)}
        program = ["-m", "trainer.network_benchmark", *(f"--{name}={value}" for name, value in flags.items())]
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}", *program]
        text = run([python, *launcher], cwd=REPOSITORY, timeout_seconds=_SECONDS)
    findings.saw(f"torchrun --nproc-per-node={gpus} -m trainer.network_benchmark", text)
