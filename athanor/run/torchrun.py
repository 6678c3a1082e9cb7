"""Parser of pasted torchrun commands. The job starts torchrun itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from athanor.run.pasted import Pasted, split_option, unknown_option, value_of
from athanor.run.variables import leading_variables
from infra.errors import RefusalError
from workloads.launchers import (
    HOROVODRUN_MODULE,
    MPI_LAUNCHERS,
    OF_PYTHON_FILES,
    PYTHON,
    TORCHRUN_MODULES,
    not_for_torchrun,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# Options of torchrun (torch 2.15, torch/distributed/run.py), without the dashes, "_" as "-".
_SIZES = {"nnodes": "workers", "nproc-per-node": "processes"}
_OF_THE_JOB = {
    "node-rank", "master-addr", "master-port", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts",
    "local-addr",
}  # fmt: skip
_ANY_PROGRAM = "--no-python"
"""The option with which torchrun starts any program in every rank: the job's own torchrun gets it, too."""
_LAUNCHER_OF_MODULE = {
    "accelerate.commands.launch": "accelerate", "deepspeed.launcher.runner": "deepspeed",
    HOROVODRUN_MODULE: "horovodrun",
}  # fmt: skip


def read_pytorch(words: Sequence[str]) -> Pasted:
    """Return the program that torchrun is to run: a script or -m and a module, with arguments.

    Raises:
        RefusalError: torchrun has an option that the job cannot honour, or the command is not of Python.
    """
    variables, behind = leading_variables(words)
    pasted = _pytorch(behind)
    if starter := not_for_torchrun(pasted.program):
        raise _not_of_python(PurePosixPath(starter).name, (starter, *pasted.program))
    return replace(pasted, env=variables)


def _pytorch(words: Sequence[str]) -> Pasted:
    path = PurePosixPath(words[0])
    if path.name == "torchrun":
        return _torchrun(words[1:])
    if words[0] in {"-m", _ANY_PROGRAM} or path.suffix == ".py":
        rest = list(words)
    elif PYTHON.fullmatch(path.name):
        rest = list(words[1:])
    else:
        raise _not_of_python(path.name, words)
    while rest[:1] == ["-u"]:  # pods print without a buffer anyway
        rest.pop(0)
    module = rest[1] if rest[:1] == ["-m"] and len(rest) > 1 else None
    if module in TORCHRUN_MODULES:
        return _torchrun(rest[2:])
    if module in _LAUNCHER_OF_MODULE:
        raise _not_of_python(_LAUNCHER_OF_MODULE[module], words)
    if not rest or (rest[0].startswith("-") and rest[0] != _ANY_PROGRAM and module is None):
        raise _not_of_python(path.name, words)
    return Pasted(program=tuple(rest))


def _not_of_python(name: str, words: Sequence[str]) -> RefusalError:
    """Return the refusal of what torchrun would read as a Python file in every rank, and fail."""
    script = next((word for word in words if word.endswith(".py")), "train.py")
    if name in MPI_LAUNCHERS:
        return RefusalError("command", name, "--kind pytorch starts the ranks with torchrun", "add --kind mpi")
    if name in OF_PYTHON_FILES:
        limit = "the job starts the ranks itself, with torchrun, under which such scripts run, too"
        fix = f"write only the script: python {script}, and set the ranks with --workers and --processes"
        return RefusalError("command", name, limit, fix)
    limit = "the job runs torchrun itself, which starts a Python file or module in every rank"
    fix = (
        f"write python {script} or python -m MODULE; any program: torchrun --no-python, or --kind batch, once in a pod"
    )
    return RefusalError("program", words[0], limit, fix)


def _torchrun(words: Sequence[str]) -> Pasted:
    rest = list(words)
    pasted = Pasted()
    in_front: tuple[str, ...] = ()
    while rest and rest[0].startswith("-") and rest[0] not in {"-m", "--module"}:
        option = rest.pop(0)
        name, value = split_option(option)
        name = name.replace("_", "-")
        if name == "standalone":
            continue
        if name == _ANY_PROGRAM.strip("-"):
            in_front = (_ANY_PROGRAM,)
            continue
        if name not in {*_SIZES, *_OF_THE_JOB}:
            raise unknown_option("torchrun", option)
        value = value_of(option, value, rest)
        pasted = pasted.with_size(_SIZES[name], option, value) if name in _SIZES else pasted.without(option, value)
    if rest[:1] == ["--module"]:
        rest[0] = "-m"
    pasted = pasted.starting("torchrun", rest)
    return replace(pasted, program=(*in_front, *pasted.program))
