"""The commands behind the Makefile: `python -m tools <command>`."""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sys
from typing import TYPE_CHECKING

from rich.markup import escape

from athanor.account.errors import CloudError
from athanor.inspection.log_store import LogStoreError
from infra.errors import RefusalError
from infra.images import TRAINER_FRAMEWORKS
from tools.errors import ExpectedError
from tools.local_environment import commands as local
from tools.local_environment.stack import STACK
from tools.operations import commands as operations
from tools.operations.rerun import Request
from tools.operations.search_logs import Search
from tools.operations.target import Place
from tools.paths import paths
from tools.progress import Progress
from tools.proxies import reach_local_clusters_directly
from tools.stacks.preview import engine_for_a_preview, preview
from tools.stacks.review import review
from tools.terminal import status_of, terminal
from tools.toolchain.catalogue import ENGINE_WITH_CLOUDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import Console

    Command = Callable[[argparse.Namespace, Console, Progress], None]

INTERRUPTED = 130
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


def main(words: list[str]) -> int:
    """Run one command; return the process's exit status."""
    arguments = _parser().parse_args(words)
    console = terminal(sys.stdout)
    report = Progress(durations_file=paths().cache / "durations.json")
    command: Command = arguments.run
    reach_local_clusters_directly(os.environ)
    try:
        command(arguments, console, report)
    except KeyboardInterrupt:
        report.console.print(
            "Interrupted. `make up` continues from here, `make down` removes everything created so far."
        )
        return INTERRUPTED
    except (ExpectedError, RefusalError, CloudError, LogStoreError) as error:
        report.console.print(f"[bold red]Failed:[/] {escape(str(error))}", soft_wrap=True)
        report.console.print(f"[dim]Details: {escape(str(paths().logs))}[/]", soft_wrap=True)
        return 1
    except OSError as error:
        # Also of whatever the command was writing when the disk filled up; any other one is a bug, with its traceback.
        if error.errno not in _DISK_FULL:
            raise
        report.console.print(f"[bold red]Failed:[/] {escape(_disk_full_words(error))}", soft_wrap=True)
        return 1
    return 0


def _disk_full_words(error: OSError) -> str:
    where = paths()
    free = ", ".join(f"{_free_gib(folder):.1f} GiB free for {folder}" for folder in (where.cache, where.home))
    fix = "free some disk space, or set ATHANOR_CACHE and ATHANOR_HOME to folders on a larger disk, and repeat it"
    return f"{error.strerror}: {free}\nFix: {fix}"


def _free_gib(folder: Path) -> float:
    return shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists())).free / 2**30


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(name: str, text: str, run: Command) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text)
        command.set_defaults(run=run)
        return command

    add("up", "start everything and train the example", _up)
    add("down", "remove everything", lambda _, __, report: local.down(report))
    add("stop", "stop the cluster, keep its state", lambda _, __, report: local.stop(report))
    _add_questions(add)
    built = add("image", "build an image", lambda options, _, report: local.image(options.framework, report))
    built.add_argument("framework", choices=sorted(set(TRAINER_FRAMEWORKS.values())), help="framework in it")
    got = add("tools", "install every tool", lambda options, _, report: local.every_tool(report, options.engine))
    got.add_argument(
        "--engine", default="pulumi", choices=("pulumi", ENGINE_WITH_CLOUDS), help="engine to use; kept once installed"
    )
    engine = add("engine", "install the engine with what previews and updates of some stacks need", _engine)
    engine.add_argument("stacks", nargs="+", metavar="stack", help="a stack's name, such as prod")
    previewed = add("preview", "preview what an update of a stack would change", _preview)
    previewed.add_argument("stack", help="the stack's name, such as prod")
    reviewed = add("review", "write what updates of stacks would change as one Markdown report", _review)
    reviewed.add_argument("stacks", nargs="+", metavar="stack", help="a stack's name, such as prod")
    reviewed.add_argument(
        "--option", action="append", default=[], metavar="--NAME=VALUE", help="passed on to `athanor review`"
    )
    recovered = add("recover", "resolve the pending operations that a killed update of a stack left behind", _recover)
    recovered.add_argument("stack", help="the stack's name, such as prod")
    recovered.add_argument(
        "--minutes",
        type=float,
        default=30,
        help="how long to wait for resources that are still being created (default: %(default)s)",
    )
    accepted = add("acceptance", "test everything on a real account and write a report", _acceptance)
    accepted.add_argument(
        "stack", help="the stack's name; for a stack without an account, such as local, tests this machine's GPUs"
    )
    accepted.add_argument("--yes", action="store_true", help="do not ask for confirmation of the cost")
    accepted.add_argument("--keep", action="store_true", help="keep the environment at the end")
    accepted.add_argument("--pools", default="", help="GPU pools to use, separated by commas; default: all")
    pictures = add("pictures", "draw the pictures of the README from this environment", _pictures)
    pictures.add_argument("pictures", nargs="+", choices=("dashboard", "up"), help="what to draw")
    predict = add(
        "predict",
        "classify a held-out digit",
        lambda options, console, __: local.predict(console, options.image),
    )
    predict.add_argument("image", type=int, help="index of the held-out image, from 0")
    return parser


def _add_questions(add: Callable[[str, str, Command], argparse.ArgumentParser]) -> None:
    """Add what asks about jobs: of any stack, or of any cluster."""
    status = add("status", "show what runs where", _status)
    why = add("why", "explain why a job does not run", _why)
    logs = add("logs", "show the logs of all pods of a job", _logs)
    rerun = add("rerun", "run a finished job again", _rerun)
    searched = add("search-logs", "search all logs", _search_logs)
    drawn = add("dashboards", "render the dashboards as pages", _dashboards)
    for command in (status, why, logs, searched, drawn, rerun):
        command.add_argument(
            "--stack", help="stack that provides namespace and cluster; default: local, unless both are given"
        )
        command.add_argument("--kubeconfig", help="kubeconfig of the cluster; default: $KUBECONFIG, ~/.kube/config")
        command.add_argument("--context", help="context of the cluster in that kubeconfig")
        command.add_argument("--namespace", help="namespace of the jobs; default: the stack's")
    for command in (why, logs, rerun):
        command.add_argument("job", help="the job's name in the program, such as digits-training")
    logs.add_argument("--follow", action="store_true", help="keep printing until the job has ended")
    logs.add_argument("--timestamps", action="store_true", help="print the time of every line")
    logs.add_argument("--past", action="store_true", help="read from the log store, even if there are pods")
    searched.add_argument("--query", default=os.environ.get("QUERY", ""), help="LogsQL; default: $QUERY")
    searched.add_argument("--since", default="1h", help="how far back, such as 30m or 2d; default: 1h")
    searched.add_argument(
        "--limit", type=int, default=1000, help="maximum number of lines, the latest ones; default: 1000"
    )
    drawn.add_argument(
        "--prometheus", help="address of Prometheus, such as localhost:9090; default: the platform's own"
    )
    drawn.add_argument(
        "--minutes",
        type=int,
        help="length of the time range that ends now; default: the range of the last training run",
    )
    drawn.add_argument("--job", help="job to show; default: the last one that trained")
    drawn.add_argument("--service", help="service to show; default: the first one")
    rerun.add_argument("--force", action="store_true", help="even if it is still running: it is stopped first")
    rerun.add_argument(
        "--commit", help="commit of its code: a full hash, or `same`; default: the latest of its branch or tag"
    )


def _place(arguments: argparse.Namespace) -> Place:
    named = (arguments.kubeconfig, arguments.context, arguments.namespace)
    return Place(
        stack=arguments.stack or (None if any(named) else STACK),
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        namespace=arguments.namespace,
    )


def _status(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    place = _place(arguments)
    if place == Place(stack=STACK):
        local.status(console, report)
    else:
        operations.status(place, console, report)


def _why(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    operations.why(_place(arguments), arguments.job, console, report)


def _logs(arguments: argparse.Namespace, _: Console, report: Progress) -> None:
    place = _place(arguments)
    how = operations.LogView(follow=arguments.follow, timestamps=arguments.timestamps, past=arguments.past)
    operations.logs(place, arguments.job, report, how)


def _search_logs(arguments: argparse.Namespace, _: Console, report: Progress) -> None:
    search = Search(query=arguments.query, since=arguments.since, limit=arguments.limit, namespace=arguments.namespace)
    operations.search_logs(_place(arguments), search, report)


def _dashboards(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    # What draws takes a second to import, which no other command needs to wait for.
    from tools.operations.dashboards.commands import View, render  # noqa: PLC0415

    view = View(
        prometheus=arguments.prometheus,
        minutes=arguments.minutes,
        namespace=arguments.namespace,
        job=arguments.job,
        service=arguments.service,
    )
    render(_place(arguments), view, console, report)


def _pictures(arguments: argparse.Namespace, _: Console, report: Progress) -> None:
    # As above.
    from tools.pictures.commands import draw_pictures  # noqa: PLC0415

    draw_pictures(arguments.pictures, report)


def _rerun(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    asked = Request(job=arguments.job, force=arguments.force, commit=arguments.commit)
    operations.rerun(_place(arguments), asked, console, report)


def _up(_: argparse.Namespace, console: Console, report: Progress) -> None:
    # Modules for building images and clusters take time to import, which no question about them needs to wait for.
    from tools.local_environment.up import up  # noqa: PLC0415

    up(console, report)


def _engine(arguments: argparse.Namespace, _: Console, report: Progress) -> None:
    for stack in arguments.stacks:
        engine_for_a_preview(stack, report)


def _preview(arguments: argparse.Namespace, _: Console, report: Progress) -> None:
    status = preview(arguments.stack, report)
    if status:
        raise SystemExit(status)


def _review(arguments: argparse.Namespace, _: Console, report: Progress) -> None:
    status = review(arguments.stacks, arguments.option, report)
    if status:
        raise SystemExit(status)


def _recover(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    # The vendor's client takes half a second to import, which no other command needs to wait for.
    from tools.recovery.recover import recover  # noqa: PLC0415

    recover(arguments.stack, console, report, arguments.minutes * 60)


def _acceptance(arguments: argparse.Namespace, console: Console, report: Progress) -> None:
    # As above: the vendor's client, and settings of everything.
    from tools.acceptance.command import Options, accept  # noqa: PLC0415

    named: str = arguments.pools
    options = Options(yes=arguments.yes, keep=arguments.keep, pools=[name for name in named.split(",") if name])
    status = accept(arguments.stack, options, console, report)
    if status:
        raise SystemExit(status)


if __name__ == "__main__":
    sys.exit(status_of(lambda: main(sys.argv[1:])))
