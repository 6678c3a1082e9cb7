"""The command line of `athanor sweep`. Imports only the standard library."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from athanor.run.arguments import add_job

if TYPE_CHECKING:
    from athanor.runs.arguments import Commands

_EPILOG = """examples:
  athanor sweep --param lr=0.1,0.03,0.01 --search grid -- python train.py --lr {lr}
  athanor sweep --param lr=1e-4..1e-1:log --param layers=2..8 --trials 40 --parallel 4 \\
      --metric accuracy --goal maximize --stop-early median --gpus 1 -- python train.py --lr {lr} --layers {layers}
  athanor sweep --param lr=0.1,0.01 --search grid --then 'python export.py {output}' -- python train.py --lr {lr}
  athanor sweep --resume train-3f9a01           # after Ctrl-C, or when this machine was off
  athanor sweep --delete train-3f9a01           # its runs and its local folder

A parameter has a list of values, or a range of numbers with :log or :STEP. Each trial is a run of its own:
NAME-0, NAME-1 and so on, in `athanor runs`. Its result is the latest value of --metric that it printed as
a line of JSON, such as {"step": 10, "loss": 0.31}.

exit status:
  0  all trials ended, at least one completed, and so did the command of --then
  1  refused, or the engine or the cluster failed, or no trial completed, or not the command of --then
  2  wrong arguments
  130  Ctrl-C: running trials continue, and no new ones start until --resume
"""


def add_sweep(commands: Commands) -> None:
    """Add the command to the parser's."""
    sweep: argparse.ArgumentParser = commands.add_parser(
        "sweep",
        help="run a command with many arguments and find the best",
        description="Run a command with many values of its arguments, and find the best.",
        usage="athanor sweep [options] -- COMMAND with {placeholders}…",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sweep.add_argument("program", nargs="*", metavar="COMMAND", help="such as python train.py --lr {lr}")
    _add_search(sweep)
    _add_trials(sweep)
    add_job(sweep, "sweep")
    what = sweep.add_mutually_exclusive_group()
    what.add_argument("--resume", metavar="NAME", help="continue a sweep; --trials, --parallel and --then may change")
    what.add_argument("--delete", metavar="NAME", help="delete a sweep with its runs")
    sweep.add_argument("--json", action="store_true", help="print all trials as one JSON object at the end")


def _add_search(sweep: argparse.ArgumentParser) -> None:
    search = sweep.add_argument_group("search")
    search.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUES",
        help="lr=0.1,0.01 or lr=1e-4..1e-1:log or layers=2..8 or batch=32..256:32",
    )  # fmt: skip
    search.add_argument(
        "--space", metavar="FILE", help="the parameters in YAML: lr: {low: 0.0001, high: 0.1, log: true}"
    )
    search.add_argument(
        "--search", choices=("grid", "random", "tpe"), default="tpe",
        help="all combinations, random ones, or those that earlier trials suggest (default: tpe)",
    )  # fmt: skip
    search.add_argument("--metric", default="loss", metavar="NAME", help="what to compare (default: loss)")
    search.add_argument("--goal", choices=("minimize", "maximize"), default="minimize")


def _add_trials(sweep: argparse.ArgumentParser) -> None:
    trials = sweep.add_argument_group("trials")
    trials.add_argument("--trials", type=int, metavar="N", help="how many (default: all points of a grid)")
    trials.add_argument("--parallel", type=int, metavar="N", help="how many at a time (default: 1)")
    trials.add_argument(
        "--stop-early", choices=("median",), help="delete a trial that is worse than the median of completed ones"
    )
    trials.add_argument(
        "--stop-early-after", type=int, default=5, metavar="N", help="completed trials before that (default: 5)"
    )
    trials.add_argument(
        "--then", metavar="COMMAND",
        help="at the end, run this in one pod: {lr} is the best trial's value, {output} the folder of its files",
    )  # fmt: skip
