"""`athanor apply`: update a stack exactly as its reviewed plan says, or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from athanor.review.engine import policy_flags
from athanor.review.plan_file import read_plan, state_digest
from athanor.review.verdict import FAILED, PASSED, UNREADABLE
from infra.errors import RefusalError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from athanor.review.plan_file import PlanFile

_AGAIN = "run the pipeline again, and review its plan"


def run(arguments: argparse.Namespace) -> int:
    """Apply a plan; return the exit status.

    Args:
        arguments: as athanor/pipeline/arguments.py parses them.
    """
    try:
        plan = read_plan(arguments.plan)
        check_fits(plan, arguments.stack)
        return _update(plan, policy_flags(arguments.policy_pack, plan.stack))
    except (OSError, RefusalError) as error:
        sys.stderr.write(f"athanor apply: {error}\n")
        return UNREADABLE


def check_fits(plan: PlanFile, stack: str) -> None:
    """Check that a plan is for this stack in the state that it is in now.

    Raises:
        RefusalError: it is for another stack, or the stack was updated since.
        OSError: the engine could not be started.
    """
    if plan.stack != stack:
        raise RefusalError("--plan", plan.stack, f"is a plan of another stack than {stack}", "name that stack's plan")
    if state_digest(stack) != plan.state:
        raise RefusalError("--plan", stack, "the stack was updated after the plan", _AGAIN)


def _update(plan: PlanFile, flags: Sequence[str]) -> int:
    """Run the update; the engine previews it first, and stops there if the program asks for anything else."""
    with tempfile.TemporaryDirectory() as private:
        file = Path(private) / "plan.json"
        file.write_text(json.dumps(plan.plan), encoding="utf-8")
        command = ["pulumi", "up", "--yes", "--non-interactive", "--stack", plan.stack, "--plan", str(file), *flags]
        status = subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode
    if status == 0:
        return PASSED
    sys.stderr.write(
        f"athanor apply: `pulumi up` ended with status {status}. Where it says `violates plan`, the program asks for"
        f" other changes than the plan: {_AGAIN}.\n"
    )
    return FAILED
