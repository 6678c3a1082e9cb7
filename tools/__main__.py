"""The commands behind the Makefile: `python -m tools <command>`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from rich.markup import escape

from infra.errors import RefusalError
from infra.images import TRAINER_REPOSITORIES
from tools import environment
from tools.dashboards.errors import DashboardError, PrometheusError
from tools.images.errors import ImageError
from tools.inspection import commands as inspection
from tools.inspection.log_search import Search
from tools.inspection.log_store import LogStoreError
from tools.inspection.target import Place
from tools.local_cluster import ClusterError
from tools.paths import paths
from tools.preview import preview
from tools.process import CommandError
from tools.progress import Progress, wide_console
from tools.recovery.errors import CloudError
from tools.serving import ServingError
from tools.toolchain import ToolchainError
from tools.training import TrainingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    Command = Callable[[argparse.Namespace, Console, Progress], None]

EXPECTED_ERRORS = (
    RefusalError,
    CloudError,
    ClusterError,
    CommandError,
    DashboardError,
    ImageError,
    LogStoreError,
    PrometheusError,
    ServingError,
    ToolchainError,
    TrainingError,
    subprocess.TimeoutExpired,
    ValueError,
)
INTERRUPTED = 130


def main(words: list[str]) -> int:
    """Run one command; return the process's exit status."""
    arguments = _parser().parse_args(words)
    console = wide_console(sys.stdout)
    report = Progress(durations_file=paths().cache / "durations.json")
    command: Command = arguments.run
    try:
        command(arguments, console, report)
    except KeyboardInterrupt:
        report.console.print("Interrupted. `make up` continues from here, `make down` removes what was made.")
        return INTERRUPTED
    except EXPECTED_ERRORS as error:
        report.console.print(f"[bold red]Failed:[/] {escape(str(error))}", soft_wrap=True)
        report.console.print(f"[dim]Details: {escape(str(paths().logs))}[/]", soft_wrap=True)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(name: str, text: str, run: Command) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text)
        command.set_defaults(run=run)
        return command

    add("up", "start everything and train the example", lambda _, console, report: environment.up(console, report))
    add("down", "remove everything", lambda _, __, report: environment.down(report))
    add("stop", "stop the cluster, keep its state", lambda _, __, report: environment.stop(report))
    _add_questions(add)
    built = add("image", "build an image", lambda found, _, report: environment.image(found.framework, report))
    built.add_argument("framework", choices=tuple(TRAINER_REPOSITORIES), help="whose jobs it is for")
    add("tools", "get every tool", lambda _, __, report: environment.every_tool(report))
    shown = add("preview", "what an update of a stack would change", _preview)
    shown.add_argument("stack", help="the stack's name, such as prod")
    recovered = add("recover", "settle what a killed update of a stack left undecided", _recover)
    recovered.add_argument("stack", help="the stack's name, such as prod")
    predict = add(
        "predict", "classify a held-out digit", lambda found, console, __: environment.predict(console, found.image)
    )
    predict.add_argument("image", type=int, help="which held-out image, from 0")
    return parser


def _add_questions(add: Callable[[str, str, Command], argparse.ArgumentParser]) -> None:
    """Add what asks about jobs: of any stack, or of any cluster."""
    status = add("status", "what runs where", _status)
    why = add("why", "why a job does not run", _why)
    logs = add("logs", "logs of all pods of a job", _logs)
    rerun = add("rerun", "run an ended job again", _rerun)
    searched = add("search-logs", "search the logs of everything", _search_logs)
    drawn = add("dashboards", "draw the dashboards as pages", _dashboards)
    for command in (status, why, logs, searched, drawn, rerun):
        command.add_argument("--stack", help="whose namespace and cluster; default: local, unless those are named")
        command.add_argument("--kubeconfig", help="kubeconfig of the cluster; default: $KUBECONFIG, ~/.kube/config")
        command.add_argument("--context", help="the cluster's context in it")
        command.add_argument("--namespace", help="namespace of the jobs; default: the stack's")
    for command in (why, logs, rerun):
        command.add_argument("job", help="the job's name in the program, such as digits-training")
    logs.add_argument("--follow", action="store_true", help="until the job has ended")
    logs.add_argument("--timestamps", action="store_true", help="with the time of every line")
    logs.add_argument("--past", action="store_true", help="from the store, even if there are pods")
    searched.add_argument("--query", default=os.environ.get("QUERY", ""), help="LogsQL; default: $QUERY")
    searched.add_argument("--since", default="1h", help="how far back, such as 30m or 2d; default: 1h")
    searched.add_argument("--limit", type=int, default=1000, help="most lines, the latest ones; default: 1000")
    drawn.add_argument("--prometheus", help="its address, such as localhost:9090; default: the platform's own")
    drawn.add_argument("--minutes", type=int, help="how long until now; default: what shows the last training run")
    drawn.add_argument("--job", help="default: the last one that trained")
    drawn.add_argument("--service", help="default: the first one there is")
    rerun.add_argument("--force", action="store_true", help="even if it still runs: it is stopped first")


def _place(arguments: argparse.Namespace) -> Place:
    named = (arguments.kubeconfig, arguments.context, arguments.namespace)
    return Place(
        stack=arguments.stack or (None if any(named) else environment.STACK),
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        namespace=arguments.namespace,
    )


def _status(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    place = _place(arguments)
    if place == Place(stack=environment.STACK):
        environment.status(console, report)
    else:
        inspection.status(place, console, report)


def _why(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    inspection.why(_place(arguments), arguments.job, console, report)


def _logs(arguments: argparse.Namespace, _: Console, report: Progress) -> None:
    place = _place(arguments)
    how = inspection.LogView(follow=arguments.follow, timestamps=arguments.timestamps, past=arguments.past)
    inspection.logs(place, arguments.job, report, how)


def _search_logs(arguments: argparse.Namespace, _: Console, report: Progress) -> None:
    found = Search(query=arguments.query, since=arguments.since, limit=arguments.limit, namespace=arguments.namespace)
    inspection.search_logs(_place(arguments), found, report)


def _dashboards(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    # What draws takes a second to import, which no other command needs to wait for.
    from tools.dashboards.commands import View, render  # noqa: PLC0415

    view = View(
        prometheus=arguments.prometheus,
        minutes=arguments.minutes,
        namespace=arguments.namespace,
        job=arguments.job,
        service=arguments.service,
    )
    render(_place(arguments), view, console, report)


def _rerun(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    inspection.rerun(_place(arguments), arguments.job, console, report, force=arguments.force)


def _preview(arguments: argparse.Namespace, _: Console, report: Progress) -> None:
    status = preview(arguments.stack, report)
    if status:
        raise SystemExit(status)


def _recover(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    # The vendor's client takes half a second to import, which no other command needs to wait for.
    from tools.recover import recover  # noqa: PLC0415

    recover(arguments.stack, console, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
