"""`make review STACK=…`: `athanor review` of this clone's stacks, with the engine that the clone uses."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from athanor.command_line import main
from tools.paths import REPOSITORY
from tools.stacks.engine import engine_environment
from tools.stacks.preview import engine_for_a_preview, existing_for_a_preview

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.progress import Progress


def review(stacks: Sequence[str], options: Sequence[str], report: Progress) -> int:
    """Write the report of some stacks; return the exit status of `athanor review`.

    A stack that does not exist yet is created for its preview alone. The engine checks the policies too.

    Args:
        stacks: names of this project's stacks.
        options: further arguments of `athanor review`.
        report: of what has to be downloaded or built first.

    Raises:
        RefusalError: a stack's configuration is wrong.
        ToolchainError: a program is not available.
        CommandError: the engine refused to create a stack.
    """
    with ExitStack() as existing:
        for stack in stacks:
            engine = engine_for_a_preview(stack, report)
            existing.enter_context(existing_for_a_preview(engine))
            os.environ.update(engine_environment(engine.pulumi))
        policies = f"--policy-pack={REPOSITORY / 'policies'}"
        return main(["review", policies, *options, *(f"--stack={stack}" for stack in stacks)])
