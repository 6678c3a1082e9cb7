"""`athanor review`: reads previews, writes one Markdown report, and returns an exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from athanor.review.engine import engine_preview, policy_flags
from athanor.review.plan_file import planned_preview
from athanor.review.prices import prices_for, read_prices
from athanor.review.reading import read_preview
from athanor.review.report import report
from athanor.review.running_work import Running, ask, running
from athanor.review.stack_review import stack_review
from athanor.review.verdict import UNREADABLE, exit_status
from infra.errors import RefusalError

if TYPE_CHECKING:
    import argparse

    from athanor.review.preview import Preview

STDIN = "-"


def run(arguments: argparse.Namespace) -> int:
    """Write the report of some previews; return the exit status of verdict.py.

    Args:
        arguments: as athanor/command_line.py parses them.
    """
    try:
        previews = _previews(arguments)
        own = read_prices(arguments.prices) if arguments.prices else None
        reviews = [stack_review(each, prices_for(each.config, own), _running(arguments)) for each in previews]
        _write(report(reviews, arguments.limit), arguments.output)
    except (OSError, RefusalError) as error:
        sys.stderr.write(f"athanor review: {error}\n")
        return UNREADABLE
    return exit_status(reviews, arguments.fail_on)


def _previews(arguments: argparse.Namespace) -> list[Preview]:
    stacks: list[str] = arguments.stack
    files: list[str] = arguments.previews
    if not stacks and not files:
        files = [STDIN]
    return [*(_read(given) for given in files), *(_made(stack, arguments) for stack in stacks)]


def _made(stack: str, arguments: argparse.Namespace) -> Preview:
    flags = policy_flags(arguments.policy_pack, stack)
    if arguments.save_plans:
        return planned_preview(stack, arguments.save_plans, flags)
    return engine_preview(stack, flags=flags)


def _read(given: str) -> Preview:
    """Read FILE, NAME=FILE or standard input."""
    stack, equals, file = given.partition("=")
    if not equals or Path(given).exists():
        stack, file = "", given
    content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    preview = read_preview(content.decode("utf-8-sig", errors="replace"), stack)
    if preview.stack or file == STDIN:
        return preview
    return read_preview(content.decode("utf-8-sig", errors="replace"), Path(file).stem)


def _running(arguments: argparse.Namespace) -> Running | str:
    if not (arguments.running or arguments.kubeconfig or arguments.context):
        return "not asked"
    try:
        if arguments.running:
            return running(arguments.running.read_text(encoding="utf-8"))
        return running(ask(arguments.kubeconfig, arguments.context))
    except subprocess.TimeoutExpired:
        return "the cluster did not answer in time"
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or "").strip().splitlines()
        return f"the cluster could not be asked: {lines[-1] if lines else f'kubectl ended with {error.returncode}'}"
    except (OSError, ValueError) as error:
        return f"the cluster could not be asked: {error}"


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    else:
        output.write_text(text, encoding="utf-8")
