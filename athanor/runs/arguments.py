"""The command lines of the commands about runs. Imports only the standard library."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Commands = Any
"""Type of the result of argparse's add_subparsers: it has no public name."""
Arguments = Any
"""A parser, or a group of its arguments: what they have in common has no public name either."""
_PAIR = 2
_STATUSES = {
    "0": "done",
    "1": "refused, or the engine or the cluster failed",
    "2": "wrong arguments",
    "130": "Ctrl-C",
}
_FOLLOWED = {"0": "printed; with --follow: the job completed, or you detached with Ctrl-C",
             "1": f"{_STATUSES['1']}; with --follow: the job failed or was stopped"}  # fmt: skip
_WATCHED = {"0": "the job has not failed, or you pressed Ctrl-C", "1": f"{_STATUSES['1']}, or the job failed"}
_EXPLAINED = {"0": "explained, whatever the cause"}
_INSIDE = {"0": "the shell or the command ended with 0", "others": "the command's own"}
_FORWARDED = {"0": "you pressed Ctrl-C", "others": "kubectl's own"}
_SHOWN = {"0": "you pressed Ctrl-C", "others": "TensorBoard's own"}
_LAST_PORT = 65535


def add_runs(commands: Commands) -> None:
    """Add the commands to the parser's."""
    runs = _command(commands, "runs", "list your runs", "athanor runs --json")
    runs.description = (
        "List your runs. The commands about one of them also work after `runs`: `athanor runs compare A B` is"
        " `athanor compare A B`."
    )
    _add_json(runs, "print one JSON object for each run")
    status = _command(
        commands, "status", "show what runs in your namespace, and who has the GPUs", "athanor status --json"
    )
    _add_json(status, "print one JSON object")
    logs = _command(commands, "logs", "print what a run's pods write", "athanor logs --follow train-3f9a01", _FOLLOWED)
    logs.add_argument("run", metavar="RUN")
    logs.add_argument("--follow", action="store_true", help="until the job ends; Ctrl-C only detaches")
    logs.add_argument("--rank", type=_number, metavar="N", help="of the pod that computes this rank alone")
    logs.add_argument("--tail", type=_number, metavar="N", help="the last N lines of each pod")
    logs.add_argument("--since", type=_seconds, metavar="TIME", help="of the last 90s, 10m, 2h or 1d")
    logs.add_argument("--previous", action="store_true", help="of earlier pods, before a restart, from the log store")
    _add_json(logs, "print one JSON object for each line: pod, time and line")
    watch = _command(commands, "watch", "show a run's progress and curves", "athanor watch train-3f9a01", _WATCHED)
    watch.add_argument("run", metavar="RUN", help="until it ends; printed once where the output is not a terminal")
    _add_json(watch, "print the present state as one JSON object, with the latest numbers")
    compare = _command(commands, "compare", "show how two runs differ", "athanor compare train-3f9a01 train-77c0de")
    compare.add_argument("run", metavar="RUN")
    compare.add_argument("other", metavar="RUN")
    _add_json(compare, "print one JSON object, without the curves")
    curves = _command(
        commands, "curves", "write runs' curves as one page for a browser", "athanor curves train-3f9a01 train-77c0de"
    )
    curves.add_argument("runs", nargs="+", metavar="RUN", help="up to 8")
    how = curves.add_mutually_exclusive_group()
    how.add_argument("--output", default="curves.html", metavar="FILE", help="the page (default: curves.html)")
    _add_json(how, "print one JSON object for each run, with all points, and write no page")
    why = _command(
        commands, "why", "explain why a run does not run, and when it can start", "athanor why train-3f9a01", _EXPLAINED
    )
    why.add_argument("run", metavar="RUN")
    _add_json(why, "print one JSON object")
    context = _command(
        commands, "context", "list the clusters that you can use, and choose one", "athanor context athanor-local"
    )
    context.add_argument(
        "name", nargs="?", metavar="NAME", help="use this context from now on; -: the kubeconfig's own"
    )
    context.add_argument("--kubeconfig", metavar="FILE", help="of this file alone")
    _add_json(context, "print one JSON object for each context")
    for command in (runs, status, logs, watch, compare, curves, why, *_controls(commands), *_inside(commands)):
        add_cluster(command)
    for command in (
        _copy(commands),
        _files(commands),
        _tensorboard(commands),
    ):  # whose pods mount the platform's volumes
        add_cluster(command, with_platform=True)


def _controls(commands: Commands) -> list[argparse.ArgumentParser]:
    stop = _command(commands, "stop", "stop a run so that it can continue later", "athanor stop train-3f9a01")
    resume = _command(commands, "resume", "continue a stopped run", "athanor resume train-3f9a01")
    delete = _command(commands, "delete", "stop a run and forget it", "athanor delete train-3f9a01")
    stop.add_argument("run", metavar="RUN", help="its pods save and end, and its GPUs become available to others")
    resume.add_argument("run", metavar="RUN", help="from its latest checkpoint, as after any restart")
    delete.add_argument("run", metavar="RUN", help="its files under /data/output stay")
    delete.add_argument("--forget", action="store_true",
                        help="only remove it from your list, because its cluster is gone for good")  # fmt: skip
    for command in (stop, resume, delete):
        _add_json(command, "print what was done as one JSON object")
    return [stop, resume, delete, _rerun(commands)]


def _rerun(commands: Commands) -> argparse.ArgumentParser:
    rerun = _command(commands, "rerun", "run an ended or stopped run again", "athanor rerun train-3f9a01 --fresh")
    rerun.add_argument("run", metavar="RUN", help="with the code and arguments that it had")
    rerun.add_argument(
        "--fresh", action="store_true", help="without its checkpoints, which stay in the previous folder"
    )
    rerun.add_argument("--force", action="store_true", help="even if it has not ended: its pods are stopped first")
    _add_json(rerun, "print what was started as one JSON object")
    return rerun


def _inside(commands: Commands) -> list[argparse.ArgumentParser]:
    shell = _command(commands, "shell", "open a shell in a run's pod", "athanor shell train-3f9a01 --rank 3", _INSIDE)
    forward = _command(
        commands,
        "port-forward",
        "open ports of a run's pod on this machine",
        "athanor port-forward train-3f9a01 6006",
        _FORWARDED,
    )
    for command in (shell, forward):
        command.add_argument("run", metavar="RUN")
        which = command.add_mutually_exclusive_group()
        which.add_argument("--rank", type=_number, metavar="N", help="the pod that computes this rank")
        which.add_argument("--pod", type=_number, metavar="N", help="which of its running pods (default: 0, the first)")
    shell.add_argument("program", nargs="*", metavar="COMMAND", help="after --: run this instead of a shell")
    forward.add_argument("ports", nargs="+", type=ports, metavar="[LOCAL:]PORT", help="on 127.0.0.1, until Ctrl-C")
    return [shell, forward]


def _copy(commands: Commands) -> argparse.ArgumentParser:
    copy = _command(
        commands,
        "copy",
        "copy files from or to the platform's volumes",
        "athanor copy train-3f9a01:model.pt .",
    )
    copy.add_argument("source", metavar="SOURCE", help="a path here, or RUN:PATH, data:PATH or output:PATH")
    copy.add_argument("target", metavar="TARGET", help="the same; an existing folder gets the copy inside")
    copy.add_argument("--replace", action="store_true", help="the target may exist")
    _add_json(copy, "print what was written, its bytes and its SHA-256 as one JSON object")
    return copy


def _files(commands: Commands) -> argparse.ArgumentParser:
    files = _command(
        commands,
        "files",
        "list or delete what a run wrote, or a folder of the platform's volumes",
        "athanor files train-3f9a01",
    )
    files.add_argument("place", metavar="PLACE", help="RUN, RUN:PATH, data:PATH or output:PATH")
    files.add_argument(
        "--delete", action="store_true", help="delete it with all that is in it; its run must have ended"
    )
    _add_json(files, "print its path and its entries as one JSON object")
    return files


def _tensorboard(commands: Commands) -> argparse.ArgumentParser:
    board = _command(
        commands,
        "tensorboard",
        "show runs' event files in TensorBoard",
        "athanor tensorboard train-3f9a01",
        _SHOWN,
    )
    board.add_argument("runs", nargs="+", metavar="RUN", help="whose files are fetched every 30 seconds")
    board.add_argument("--port", type=_number, default=6006, metavar="N", help="on 127.0.0.1 (default: 6006)")
    return board


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number from 0")
    return int(word[:6])


def _seconds(word: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}[smhd]", word):
        raise argparse.ArgumentTypeError(f"{word!r} is not a time such as 90s, 10m, 2h or 1d")
    return int(word[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[word[-1]]


def ports(word: str) -> str:
    """Return the word of ports that kubectl port-forward takes.

    Raises:
        argparse.ArgumentTypeError: it is not such a word.
    """
    numbers = word.split(":")
    if len(numbers) > _PAIR or not all(each.isascii() and each.isdigit() for each in numbers):
        raise argparse.ArgumentTypeError(f"{word!r} is not a port, such as 6006 or 8080:6006")
    if not all(0 < int(each[:6]) <= _LAST_PORT for each in numbers):
        raise argparse.ArgumentTypeError(f"{word!r} has a port that is not between 1 and {_LAST_PORT}")
    return word


def _add_json(command: Arguments, help_text: str) -> None:
    command.add_argument("--json", action="store_true", help=help_text)


def _command(
    commands: Commands, name: str, help_text: str, example: str, statuses: Mapping[str, str] | None = None
) -> argparse.ArgumentParser:
    """Add a command; `statuses` says of its exit statuses what differs from those of the others."""
    ends = {**_STATUSES, **(statuses or {})}
    listed = "".join(f"  {status:<6}  {meaning}\n" for status, meaning in ends.items())
    return commands.add_parser(
        name,
        help=help_text,
        description=f"{help_text[0].upper()}{help_text[1:]}.",
        epilog=f"example: {example}\n\nexit status:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_cluster(command: argparse.ArgumentParser, *, with_platform: bool = False) -> None:
    """Add what says where the cluster is, and its platform's stack for those who need what it offers."""
    cluster = command.add_argument_group("cluster")
    cluster.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or ~/.kube/config")
    cluster.add_argument("--context", help="default: the kubeconfig's current one")
    cluster.add_argument("--namespace", help="the workloads' namespace (default: the context's)")
    if with_platform:
        cluster.add_argument("--platform", metavar="STACK", help="its stack, such as organization/athanor/local")
