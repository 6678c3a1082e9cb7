"""`make preview STACK=…`: the changes that `pulumi up` would make, for any stack, created or not."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from athanor.account.temporary_key import check_temporary_key
from athanor.review.engine import explained, policy_flags
from infra.settings.parse import parse_settings
from tools.stacks.engine import Engine, engine_environment, stack_config
from tools.stacks.venv_commands import install_commands
from tools.toolchain import ensure, upstream_manifests
from tools.toolchain.catalogue import ALICLOUD_PROVIDER

if TYPE_CHECKING:
    from collections.abc import Generator

    from infra.settings.stack import Settings
    from tools.progress import Progress

ENGINE_TOOLS = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes", "kubectl")


def engine_tools(settings: Settings) -> set[str]:
    """Return the programs that the engine needs for a stack, wherever its cluster is."""
    return {*ENGINE_TOOLS, *([ALICLOUD_PROVIDER] if settings.alicloud else [])}


def preview(stack: str, report: Progress) -> int:
    """Show a stack's preview; return the engine's exit status.

    A stack that does not exist yet is created for the preview alone and deleted after it: it stays neither in
    the backend nor in its configuration file.

    The engine checks the policies too: a violation of a mandatory one makes the status nonzero.

    Raises:
        RefusalError: the stack's configuration is wrong.
        ToolchainError: a program is not available.
        CommandError: the engine refused to create the stack.
    """
    engine = engine_for_a_preview(stack, report)
    if engine.exists():
        return _preview(engine, "--diff")
    with existing_for_a_preview(engine):
        return _preview(engine)  # all of it is new: the tree of names says more than every property


def engine_for_a_preview(stack: str, report: Progress) -> Engine:
    """Return the engine, with everything that a preview of the stack needs in place.

    Raises:
        RefusalError: the stack's configuration is wrong, neither a file nor the backend has the stack, or a temporary
            key has expired.
        ToolchainError: a program is not available.
    """
    settings = parse_settings(stack_config(stack))
    if settings.alicloud:
        check_temporary_key(os.environ)
    programs = ensure(sorted(engine_tools(settings)), report)
    engine = Engine(pulumi=programs["pulumi"], stack=stack)
    engine.check_described()
    upstream_manifests(report, gateway=settings.gateway.enabled)
    install_commands(programs["pulumi"], programs["kubectl"])
    return engine


@contextmanager
def existing_for_a_preview(engine: Engine) -> Generator[None]:
    """Create a stack for the time of the block, unless it exists; of a new one, nothing remains.

    Raises:
        CommandError: the engine refused to create the stack.
    """
    if engine.exists():
        yield
        return
    # The engine rewrites the file, with a salt and in its own spelling of numbers.
    written = engine.config_file.read_bytes() if engine.config_file.is_file() else None
    engine.prepare()
    try:
        yield
    finally:
        engine.forget()
        if written is not None:
            engine.config_file.write_bytes(written)


def _preview(engine: Engine, *flags: str) -> int:
    # On a terminal the engine draws a tree; anywhere else each line comes once.
    plain = [] if sys.stdout.isatty() else ["--non-interactive"]
    policies = policy_flags(engine.project / "policies", engine.stack)
    command = [engine.pulumi, "preview", *plain, "--stack", engine.stack, *policies, *flags]
    variables = {**os.environ, **engine_environment(engine.pulumi)}
    done = subprocess.run(command, cwd=engine.project, env=variables, check=False, stderr=subprocess.PIPE, text=True)
    if done.stderr.strip():
        sys.stderr.write(f"{explained(done.stderr.strip())}\n")
    return done.returncode
