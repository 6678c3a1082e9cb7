"""What `make preview STACK=…` does: show what `pulumi up` would change, of any stack, made or not."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from infra.settings.parse import parse_settings
from tools.commands import install_commands
from tools.engine import Engine, engine_environment, make_private_folders, stack_config
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

    A stack that does not exist yet is made for the preview alone and gone after it: nothing of it stays, neither in
    the backend nor in its configuration file.

    Raises:
        RefusalError: the stack's configuration is wrong.
        ToolchainError: a program could not be had.
        CommandError: the engine refused to make the stack.
    """
    settings = parse_settings(stack_config(stack))
    found = ensure(sorted(engine_tools(settings)), report)
    upstream_manifests(report)
    make_private_folders()
    install_commands(found["pulumi"], found["kubectl"])
    engine = Engine(pulumi=found["pulumi"], stack=stack)
    if engine.exists():
        return _preview(engine, "--diff")
    with existing_for_a_preview(engine):
        return _preview(engine)  # all of it is new: the tree of names says more than every property


@contextmanager
def existing_for_a_preview(engine: Engine) -> Generator[None]:
    """Make a stack for the time of the block, unless it exists; of one that did not, nothing stays.

    Raises:
        CommandError: the engine refused to make the stack.
    """
    if engine.exists():
        yield
        return
    # The engine writes the file anew, with a salt and in its own spelling of numbers.
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
    command = [engine.pulumi, "preview", *plain, "--stack", engine.stack, *flags]
    variables = {**os.environ, **engine_environment(engine.pulumi)}
    return subprocess.run(command, cwd=engine.project, env=variables, check=False).returncode
