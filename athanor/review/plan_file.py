"""A file with a plan of the engine, the stack that it is for, and a digest of that stack's state.

The engine compares an update with its plan by the changes that the program asks for, and by nothing else: it accepts a
plan whose stack was updated by somebody in the meantime. So the file holds a digest of the state as well.

Format: JSON with the fields of `PlanFile`. `plan` is what `pulumi preview --save-plan` writes (apitype.DeploymentPlanV1
in sdk/go/common/apitype/plan.go of pulumi/pulumi v3.232.0); secrets in it are encrypted as they are in the state.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from athanor.review.engine import engine_preview
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from athanor.review.preview import Preview

_LAST_WORDS = 500


class PlanFile(BaseModel):
    """A plan that can be applied to one stack in one state."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    stack: str
    state: str
    """SHA-256 of the stack's deployment before the preview that planned it, in hexadecimal."""
    plan: dict[str, Any]


def plan_path(folder: Path, stack: str) -> Path:
    """Return where a stack's plan is in a folder of plans."""
    return folder / f"{stack}.plan.json"


def planned_preview(
    stack: str, folder: Path, flags: Sequence[str] = (), command: Sequence[str] = ("pulumi",)
) -> Preview:
    """Preview a stack and keep the plan in a folder; a preview that failed leaves no plan.

    Args:
        stack: the stack's name.
        folder: where the plan goes; a plan of an earlier preview of the stack is removed first.
        flags: further flags of `pulumi preview`.
        command: the engine's program.

    Raises:
        RefusalError: the engine could not export the state.
        OSError: the engine could not be started, or the folder not be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = plan_path(folder, stack)
    kept.unlink(missing_ok=True)
    # Before the preview: of an update between the two, the digest then knows.
    state = state_digest(stack, command)
    with tempfile.TemporaryDirectory() as private:
        written = Path(private) / "plan.json"
        preview = engine_preview(stack, command, flags=[*flags, "--save-plan", str(written)])
        if not preview.failed:
            plan = PlanFile(stack=stack, state=state, plan=json.loads(written.read_bytes()))
            kept.write_text(plan.model_dump_json(), encoding="utf-8")
    return preview


def read_plan(file: Path) -> PlanFile:
    """Return the plan in a file.

    Raises:
        RefusalError: it is not a plan.
        OSError: it cannot be read.
    """
    try:
        return PlanFile.model_validate_json(file.read_bytes())
    except ValidationError as error:
        problem = error.errors()[0]
        raise RefusalError(
            "--plan",
            str(file),
            f"is not a plan ({'.'.join(map(str, problem['loc'])) or 'the whole file'}: {problem['msg']})",
            "make one with `athanor review --stack … --save-plans FOLDER`",
        ) from None


def state_digest(stack: str, command: Sequence[str] = ("pulumi",), variables: Mapping[str, str] | None = None) -> str:
    """Return the SHA-256 of a stack's deployment, which every update changes, also one without changes.

    Raises:
        RefusalError: the engine could not export it.
        OSError: the engine could not be started.
    """
    done = subprocess.run(
        [*command, "stack", "export", "--stack", stack, "--non-interactive"],
        capture_output=True, check=False, env={**os.environ, **(variables or {})}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-_LAST_WORDS:]
        raise RefusalError(
            "--stack",
            stack,
            f"its state cannot be exported: {said}",
            "check PULUMI_BACKEND_URL; create a new stack with `pulumi stack init`",
        )
    deployment = json.loads(done.stdout)["deployment"]
    return hashlib.sha256(json.dumps(deployment, sort_keys=True).encode()).hexdigest()
