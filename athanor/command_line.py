"""The console command `athanor`. Parsing imports only the standard library, so that --help is quick."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from athanor.account.arguments import add_leftovers
from athanor.dev.arguments import add_dev
from athanor.pipeline.arguments import add_commands, add_policy_pack
from athanor.run.arguments import add_run
from athanor.runs.arguments import Commands, add_runs
from athanor.runs.ending import INTERRUPTED
from athanor.sweep.arguments import add_sweep
from infra.errors import RefusalError
from infra.machine import find_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EPILOG = """examples:
  athanor review --stack dev --stack prod --output report.md
  pulumi preview --json | athanor review dev=-

exit status:
  0  nothing changes, or nothing at or above --fail-on
  1  a file could not be read, or the engine not started: no report
  2  wrong arguments
  3  a cluster, node pool, volume, namespace, definition or running job would be replaced or deleted
  4  other changes at or above --fail-on
  5  a preview failed or violates a mandatory policy, whatever --fail-on says
"""
_COMPLETION = """examples:
  eval "$(athanor completion bash)"                                       # in ~/.bashrc
  athanor completion zsh > ~/.zfunc/_athanor                              # with ~/.zfunc in fpath, before compinit
  athanor completion fish > ~/.config/fish/completions/athanor.fish

exit status:
  0  printed
  2  wrong arguments
"""
_SHORTEST_LIMIT = 2000
PIPE_CLOSED = 141
"""Exit status that a shell reports for SIGPIPE, which ends other programs there."""
_MODULES = {
    "review": "athanor.review.command",
    "apply": "athanor.pipeline.apply",
    "drift": "athanor.pipeline.drift",
    "comment": "athanor.pipeline.comment",
    "issue": "athanor.pipeline.issue",
    "leftovers": "athanor.account.command",
    "completion": "athanor.completion",
    "run": "athanor.run.command",
    "sweep": "athanor.sweep.command",
    "dev": "athanor.dev.command",
    "status": "athanor.runs.status",
    "context": "athanor.runs.context",
    "runs": "athanor.runs.overview",  # which spares it the engine's SDK
    **dict.fromkeys(("compare", "stop", "resume", "delete", "rerun"), "athanor.runs.command"),
    **dict.fromkeys(("shell", "port-forward", "copy", "files", "tensorboard"), "athanor.runs.command"),
    **dict.fromkeys(("logs", "watch", "curves", "why"), "athanor.runs.questions"),
}
"""Modules by command, whose `run` does the work. Importing some of them takes longer than everything else."""
_OF_RUNS = {_MODULES["stop"], _MODULES["logs"]}
"""Modules of the commands that also work after `runs`."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; return the process's exit status."""
    _replace_closed_streams()
    is_console = words is None
    words = sys.argv[1:] if words is None else words
    ended_by: list[int] = []
    if is_console:
        _end_by_signals(ended_by)
    try:
        arguments = _parsed_and_said(words)
        find_programs()
        run: Callable[[argparse.Namespace], int] = import_module(_MODULES[arguments.command]).run
        status = run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # a `head` that has enough; what is still unwritten must not fail at the end of Python
        discard_output()
        return PIPE_CLOSED
    except OSError as error:  # such as the full disk of what standard output is sent to
        sys.stderr.write(f"{' '.join(['athanor', *words[:1]])}: {error}\n")
        discard_output()
        return 1
    except KeyboardInterrupt:  # while the command was being imported, or of one that does not handle it
        sys.stderr.write("\ninterrupted\n")
        status = INTERRUPTED
    if ended_by:
        status = 128 + ended_by[0]
    if is_console and status == INTERRUPTED:
        # Threads of the engine may hold up the end of Python, which another Ctrl-C would end with a signal.
        signal.signal(signal.SIGINT, _end_at_once)
    return status


def _end_by_signals(received: list[int]) -> None:
    """Let the signals of a service manager and of a closed terminal do what Ctrl-C does, once: also in programs below.

    They would end this process and leave its temporary kubeconfigs, and its engine, behind.

    Args:
        received: Gets the number of the signal.
    """

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        received.append(number)
        with suppress(OSError):
            below = subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, check=False, text=True)
            for process in map(int, below.stdout.split()):
                with suppress(ProcessLookupError):
                    os.kill(process, to_programs)
        raise KeyboardInterrupt

    # A shell starts what runs in the background with Ctrl-C ignored, and programs below inherit that.
    to_programs = signal.SIGTERM if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else signal.SIGINT
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores the latter
            signal.signal(number, end)


def _end_at_once(_number: int, _frame: object) -> None:
    os._exit(INTERRUPTED)


def _parsed_and_said(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of one command, or end after all of its help is written."""
    try:
        return parsed(words)
    except SystemExit:
        sys.stdout.flush()
        raise


def _replace_closed_streams() -> None:
    """Discard what is written to streams that the caller has closed, as `>&-` does: Python has None for them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def discard_output() -> None:
    """Write what is still unwritten to nothing: Python would fail at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of one command.

    argparse settles the optional words of `athanor shell RUN --rank 3 -- nvidia-smi` when it has read RUN, as none, and
    then does not know what comes after `--`.
    """
    typed = _without_runs(words)
    words = _with_file(typed)
    end = words.index("--") if words[:1] == ["shell"] and "--" in words else len(words)
    whole = parser()
    arguments, unknown = whole.parse_known_args(words[:end])
    if "--" in words and "--" not in typed and not any(word.startswith("-") for word in unknown if word != "--"):
        own = arguments.program if unknown else arguments.program[: words.index("--") + 1 - len(words)]
        _check_one_command(typed, own)
    if unknown:
        _refuse(arguments, unknown)
    if arguments.command in {"run", "sweep", "dev"} and "--" not in words:
        _check_options_first(arguments, words)
    if behind := words[end + 1 :]:
        arguments.program = list(behind)
    return arguments


def _with_file(words: Sequence[str]) -> Sequence[str]:
    """Return the words of `athanor run` with those of its file, or of arena's command; an error there ends it."""
    if words[:1] != ["run"]:
        return words
    # which would take other commands 20 ms of their start
    from athanor.run.arena import with_arena  # noqa: PLC0415
    from athanor.run.run_file import with_file  # noqa: PLC0415

    run = command_parser("run")
    try:
        return ["run", *with_file(with_arena(words[1:]), run)]
    except RefusalError as refusal:
        run.error(str(refusal))


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    [commands] = [action for action in parser()._actions if action.dest == "command"]  # noqa: SLF001 - it has no name
    return cast("dict[str, argparse.ArgumentParser]", commands.choices)[name]


_OWN_OPTIONS = "; options of your own program go after --, as in: athanor {} … -- python train.py --lr 1"


def _check_one_command(typed: Sequence[str], own: Sequence[str]) -> None:
    """Refuse words of a program that were typed in addition to the command of a file, or of arena."""
    if own:
        words = " ".join(own)
        option = "--from-arena" if any(word.partition("=")[0] == "--from-arena" for word in typed) else "--file"
        fix = f"to run these instead, write them after --, as in: athanor run … -- {words}"
        command_parser("run").error(f"{words}: {option} has a command already; {fix}")


def _check_options_first(arguments: argparse.Namespace, words: Sequence[str]) -> None:
    """Refuse options after the beginning of a program: one of the same name may be meant for the program."""
    program: list[str] = getattr(arguments, "program", None) or []
    if program and list(words[-len(program) :]) != program:
        begin = words.index(program[0]) if program[0] in words else 0
        options = [word for word in words[begin:] if word.startswith("-")]
        said = f"{' '.join(options)} after {program[0]}: options of athanor go before the program"
        command_parser(arguments.command).error(f"{said}{_OWN_OPTIONS.format(arguments.command)}")


def _refuse(arguments: argparse.Namespace, unknown: Sequence[str]) -> NoReturn:
    """End with argparse's message about unknown options, and say where those of a program go."""
    own = _OWN_OPTIONS.format(arguments.command) if hasattr(arguments, "program") else ""
    command_parser(arguments.command).error(f"unrecognized arguments: {' '.join(unknown)}{own}")


def _without_runs(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a command about runs that also works after `runs`, as in `athanor runs compare A B`.

    No parsers below that of `runs`: their defaults would silently replace options that come before the command.
    """
    behind = words[1] if words[:1] == ["runs"] and len(words) > 1 else None
    return words[1:] if behind and _MODULES.get(behind) in _OF_RUNS else words


class _Version(argparse.Action):
    """Prints the release; importlib.metadata is imported for nothing else."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help="print the release and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - takes as long as all parsing

        try:
            release = version("athanor")
        except PackageNotFoundError:
            release = "of a clone, which is not installed"
        sys.stdout.write(f"athanor {release}\n")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    whole = argparse.ArgumentParser(prog="athanor", description="GPU training and inference on Kubernetes with Pulumi.")
    whole.add_argument("--version", action=_Version)
    commands = whole.add_subparsers(required=True, metavar="command", dest="command")
    review = commands.add_parser(
        "review",
        help="write what previews would change as one Markdown report",
        description="Turn the JSON of `pulumi preview --json`, of one or several stacks, into one Markdown report.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_input(review)
    _add_output(review)
    add_commands(commands)
    add_leftovers(commands)
    add_run(commands)
    add_sweep(commands)
    add_dev(commands)
    add_runs(commands)
    _add_completion(commands)
    return whole


def _add_completion(commands: Commands) -> None:
    completion: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="print a script that completes this command in your shell",
        description="Print a script that completes commands, options, their choices, files and folders.",
        epilog=_COMPLETION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))


def _add_input(review: argparse.ArgumentParser) -> None:
    review.add_argument(
        "previews",
        nargs="*",
        metavar="[NAME=]FILE",
        help="output of `pulumi preview --json`, for each stack; - is standard input, which is also the default",
    )
    review.add_argument(
        "--stack", action="append", default=[], help="run the preview of this stack of the project in this folder"
    )
    add_policy_pack(review)
    review.add_argument("--prices", type=Path, metavar="FILE", help="your prices: as_of, currency, per_hour by type")
    cluster = review.add_argument_group("running work", "Without any of these, the cluster is not asked.")
    cluster.add_argument("--kubeconfig", type=Path, metavar="FILE", help="ask this cluster what would stop")
    cluster.add_argument("--context", help="ask the cluster of this context")
    cluster.add_argument(
        "--running",
        type=Path,
        metavar="FILE",
        help="read it from the output of `kubectl get nodes,pods,pvc -A -o json`",
    )


def _add_output(review: argparse.ArgumentParser) -> None:
    review.add_argument("--output", type=Path, metavar="FILE", help="write the report to this file")
    review.add_argument(
        "--save-plans",
        type=Path,
        metavar="FOLDER",
        help="keep the plan of each --stack in FOLDER/STACK.plan.json, for `athanor apply`",
    )
    review.add_argument(
        "--limit",
        type=_limit,
        default=65536,
        metavar="CHARACTERS",
        help="length of the report, by default that of a comment on GitHub, 65536; 0: no limit",
    )
    review.add_argument(
        "--fail-on",
        default="destructive",
        choices=("never", "destructive", "replace", "change"),
        help="the least change that ends with an exit status other than 0 (default: destructive)",
    )


def _limit(word: str) -> int:
    if not (word.isascii() and word.isdigit()) or 0 < int(word[:12]) < _SHORTEST_LIMIT:
        raise argparse.ArgumentTypeError(f"{word!r} is not 0 or a number of at least {_SHORTEST_LIMIT}")
    return int(word[:12])


if __name__ == "__main__":
    sys.exit(main())
