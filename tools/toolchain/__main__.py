"""Get tools and show where they came from: `python -m tools.toolchain [name…|--stack local]`."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Column, Table

from tools.paths import paths
from tools.progress import Progress
from tools.terminal import status_of
from tools.toolchain import ToolchainError, provide, upstream_manifests
from tools.toolchain.catalogue import STACKS


def main(words: list[str]) -> int:
    """Get the named tools, or those of a stack, and print a table; return the process's exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.toolchain", description=__doc__)
    parser.add_argument("names", nargs="*", help="tools or programs, such as pulumi or kubelet")
    parser.add_argument("--stack", choices=sorted(STACKS), help="all tools that a stack needs")
    arguments = parser.parse_args(words)
    names = [*arguments.names, *STACKS.get(arguments.stack, ())]
    if not names:
        parser.error("give tools, or --stack")
    report = Progress(durations_file=paths().cache / "durations.json")
    table = Table("tool", "version", "from", "seconds", Column("folder", overflow="fold"), box=None)
    try:
        with report.step("tools"):
            provided = provide(names, report)
            if arguments.stack:
                upstream_manifests(report, gateway=True)
    except ToolchainError as error:
        report.console.print(f"Failed: {error}", markup=False, soft_wrap=True)
        return 1
    for one in provided.values():
        table.add_row(one.tool.name, str(one.version), one.origin, f"{one.seconds:.1f}", str(one.folder))
    Console(highlight=False).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(status_of(lambda: main(sys.argv[1:])))
