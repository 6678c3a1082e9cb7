"""The arguments of `athanor leftovers`. Imports only the standard library."""

from __future__ import annotations

import argparse
from typing import Any

_EPILOG = """examples:
  athanor leftovers dev
  athanor leftovers dev --json

exit status:
  0  nothing
  1  the account could not be asked
  2  wrong arguments
  3  things of the stack exist
  4  only disks of claims of clusters that are gone, which may be another stack's
"""


def add_leftovers(commands: Any) -> None:  # noqa: ANN401 - argparse keeps the class to itself
    """Add the command to what `ArgumentParser.add_subparsers` returned."""
    left = commands.add_parser(
        "leftovers",
        help="list a stack's resources that still exist in an account",
        description="List the resources of a stack of this folder's project that still exist in the Alibaba Cloud"
        " account, by tags and names, whatever the state says. Run it after `pulumi destroy`, with its credentials.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    left.add_argument("stack", help="the stack's name, such as dev")
    left.add_argument("--json", action="store_true", help="print one JSON object for each resource")
