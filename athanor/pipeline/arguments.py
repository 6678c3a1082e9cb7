"""The arguments of the pipeline commands. Imports only the standard library, so that --help is quick."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

_ACTIONS_BOT = "github-actions[bot]"
"""Author of comments written with the token of a GitHub Actions job."""
_APPLY = """example:
  athanor apply --stack dev --plan plans/dev.plan.json

exit status:
  0  applied
  1  refused: nothing has changed
  2  wrong arguments
  5  the engine stopped
"""
_DRIFT = """example:
  athanor drift --stack dev --stack prod --output drift.md

exit status:
  0  no drift
  1  no report
  2  wrong arguments
  3  drift of a cluster, node pool, volume, namespace, definition or running job
  4  other drift
  5  a check failed
"""

_WRITTEN = """example: {example}

exit status:
  0  written, or nothing had changed
  1  refused, or GitHub did not do it
  2  wrong arguments
"""


def add_commands(commands: Any) -> None:  # noqa: ANN401 - argparse keeps the class to itself
    """Add `apply`, `drift`, `comment` and `issue` to the command's parser.

    Args:
        commands: what `ArgumentParser.add_subparsers` returned.
    """
    apply = commands.add_parser(
        "apply",
        help="apply a reviewed plan of `athanor review --save-plans`, or change nothing",
        epilog=_APPLY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    apply.add_argument("--stack", required=True, help="the stack that the plan must be for")
    apply.add_argument("--plan", required=True, type=Path, metavar="FILE", help="FOLDER/STACK.plan.json of the review")
    add_policy_pack(apply)
    drift = commands.add_parser(
        "drift",
        help="report what differs between stacks and the real resources; changes nothing, runs no program",
        epilog=_DRIFT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    drift.add_argument("--stack", action="append", required=True, help="stack to check; may be given several times")
    drift.add_argument("--output", required=True, type=Path, metavar="FILE", help="write the report there")
    comment = commands.add_parser(
        "comment",
        help="keep one comment on a GitHub pull request up to date with a report",
        epilog=_WRITTEN.format(example="athanor comment report.md --pull-request 7"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    comment.add_argument("--pull-request", required=True, type=_number, metavar="NUMBER", help="its number")
    issue = commands.add_parser(
        "issue",
        help="keep one GitHub issue open, with a report, or close it",
        epilog=_WRITTEN.format(example="athanor issue drift.md --title 'Drift in dev'"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    action = issue.add_mutually_exclusive_group(required=True)
    action.add_argument("--title", help="open the issue under this title, or update it")
    action.add_argument("--close", action="store_true", help="close the issue if it is open")
    for command in (comment, issue):
        _add_github(command)


def add_policy_pack(command: argparse.ArgumentParser) -> None:
    """Add the option that names a policy pack."""
    command.add_argument(
        "--policy-pack",
        type=Path,
        metavar="FOLDER",
        help="have the engine check this pack, for each stack with FOLDER/environments/STACK.json if that exists",
    )


def _add_github(command: argparse.ArgumentParser) -> None:
    command.description = "The token is read from GITHUB_TOKEN, the address of the API from GITHUB_API_URL."
    command.add_argument("--json", action="store_true", help="print what was done as one JSON object: state and url")
    command.add_argument("report", type=Path, metavar="FILE", help="report of `athanor review` or `athanor drift`")
    command.add_argument("--repository", metavar="OWNER/NAME", help="default: $GITHUB_REPOSITORY")
    command.add_argument(
        "--author",
        default=_ACTIONS_BOT,
        help="login of the token's owner, whose texts are updated (default: %(default)s)",
    )


def _number(word: str) -> int:
    if not (word.isascii() and word.isdecimal()) or int(word[:12]) == 0:
        raise argparse.ArgumentTypeError(f"{word!r} is not the number of a pull request, such as 7")
    return int(word[:12])
