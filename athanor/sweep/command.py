"""`athanor sweep`: start, continue or delete a sweep."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from athanor.run.description import default_name, describe
from athanor.run.options import refused_in_options
from athanor.runs.cluster import Cluster
from athanor.runs.ending import exit_status
from athanor.sweep.arguments import add_sweep
from athanor.sweep.plan import read_plan
from athanor.sweep.space import fill
from athanor.sweep.sweep_folder import SweepFolder
from infra.errors import RefusalError

if TYPE_CHECKING:
    from types import ModuleType


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return its exit status.

    Args:
        arguments: as athanor/sweep/arguments.py parses them.
    """
    return exit_status("sweep", lambda: _run(arguments), as_json=arguments.json)


def _run(arguments: argparse.Namespace) -> int:
    name = arguments.resume or arguments.delete
    if name is None:
        return _begin(arguments)
    _check_alone(arguments)
    kept = SweepFolder.of(name)
    plan = kept.plan.with_changes(arguments.trials, arguments.parallel, arguments.then)
    work = _work()
    return work.delete(kept, plan) if arguments.delete else work.continue_sweep(kept, plan, as_json=arguments.json)


def _begin(arguments: argparse.Namespace) -> int:
    if not arguments.program:
        raise RefusalError("command", "", "is missing", "write it after --, such as -- python train.py --lr {lr}")
    plan = read_plan(arguments, arguments.name or default_name(arguments.program))
    sample = fill(plan.program, {parameter.name: parameter.sample for parameter in plan.space})
    described = describe(argparse.Namespace(**{**vars(arguments), "program": sample}))
    source = described.source
    with refused_in_options():
        _ = source and source.archive  # refused before anything is kept
    sys.stderr.writelines(f"{note}\n" for note in described.notes)
    work, cluster = _work(), Cluster.of(arguments)
    where = {
        "kubeconfig": str(Path(arguments.kubeconfig).absolute()) if arguments.kubeconfig else None,
        # By name: the current context may be another one by the time of --resume.
        "context": cluster.context,
        "namespace": arguments.namespace,
    }
    plan = plan.model_copy(update={"cluster": where})
    kept = SweepFolder.of(plan.name)
    kept.check_is_new()
    work.check_names_are_free(plan)
    kept.create(plan, source)
    return work.continue_sweep(kept, plan, as_json=arguments.json)


def _work() -> ModuleType:
    """Return the module that needs optuna.

    Raises:
        RefusalError: it is not installed.
    """
    try:
        return import_module("athanor.sweep.work")
    except ModuleNotFoundError as error:
        limit = "is not installed, but is needed to choose and store the trials"
        raise RefusalError("sweep", error.name, limit, "pip install 'athanor[sweep]'") from None


def _check_alone(arguments: argparse.Namespace) -> None:
    """Refuse what a sweep that exists has decided already.

    Raises:
        RefusalError: naming the first such option.
    """
    defaults = _defaults()
    allowed = {"resume", "delete", "json", "command", *(() if arguments.delete else ("trials", "parallel", "then"))}
    for name, value in vars(arguments).items():
        if name not in allowed and value != defaults.get(name):
            what, fix = ("--delete", "omit it") if arguments.delete else ("--resume", "omit it, or begin another sweep")
            limit = f"cannot be combined with {what}: a sweep keeps the settings that it began with"
            raise RefusalError("command" if name == "program" else f"--{name.replace('_', '-')}", value, limit, fix)


def _defaults() -> dict[str, object]:
    parser = argparse.ArgumentParser()
    add_sweep(parser.add_subparsers())
    return vars(parser.parse_args(["sweep"]))
