"""The command lines of `athanor runs`, `logs` and `delete`, with the standard library alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

Commands = Any
"""What argparse's add_subparsers returns: it has no public name."""


def add_runs(commands: Commands) -> None:
    """Add the commands to the parser's."""
    runs = _command(commands, "runs", "list your runs", "athanor runs --json")
    runs.add_argument("--json", action="store_true", help="print one JSON object for each run")
    logs = _command(commands, "logs", "print what a run's pods write", "athanor logs --follow train-3f9a01")
    logs.add_argument("run", metavar="RUN")
    logs.add_argument("--follow", action="store_true", help="until the job ends; Ctrl-C only detaches")
    delete = _command(commands, "delete", "stop a run and forget it", "athanor delete train-3f9a01")
    delete.add_argument("run", metavar="RUN", help="its files under /data/output stay")
    for command in (runs, logs, delete):
        add_cluster(command)


def _command(commands: Commands, name: str, help_text: str, example: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name, help=help_text, description=f"{help_text[0].upper()}{help_text[1:]}.", epilog=f"example: {example}"
    )


def add_cluster(command: argparse.ArgumentParser, *, with_platform: bool = False) -> None:
    """Add what says where the cluster is, and its platform's stack for those who need what it offers."""
    cluster = command.add_argument_group("cluster")
    cluster.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or ~/.kube/config")
    cluster.add_argument("--context", help="default: the kubeconfig's current one")
    cluster.add_argument("--namespace", help="the workloads' namespace (default: the context's)")
    if with_platform:
        cluster.add_argument("--platform", metavar="STACK", help="its stack, such as organization/athanor/local")
