"""Commands as people paste them: launchers that the job starts itself are read for what they say, and left out."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from athanor.run.variables import is_of_the_start, is_variable_of_the_start, leading_variables
from infra.errors import RefusalError
from workloads.launchers import OF_PYTHON_FILES, launcher_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OPERATORS = set("();<>|&")
_PYTHON = re.compile(r"python[\d.]*")
_MPIRUN = {"mpirun", "mpiexec", "orterun", "prterun"}
_TORCHRUN_MODULES = {"torch.distributed.run", "torch.distributed.launch"}
# Options of torchrun (torch 2.15, torch/distributed/run.py), without the dashes, "_" as "-".
_TORCHRUN_SIZES = {"nnodes": "workers", "nproc-per-node": "processes"}
_TORCHRUN_OF_THE_JOB = {
    "node-rank", "master-addr", "master-port", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts",
    "local-addr",
}  # fmt: skip
_ANY_PROGRAM = "--no-python"
"""The option with which torchrun starts any program in every rank: the job's own torchrun gets it, too."""
# Options of mpirun (Open MPI 4.1 and 5.0, mpirun(1)), without the dashes.
_MPIRUN_SIZES = {"np": "ranks", "n": "ranks", "c": "ranks", "N": "processes", "npernode": "processes"}
_MPIRUN_OF_THE_JOB = {"hostfile", "machinefile", "default-hostfile", "H", "host", "bind-to", "map-by"}
_MPIRUN_SWITCHES = {"allow-run-as-root", "oversubscribe", "tag-output", "q", "v"}
_MPIRUN_SETTINGS = {"mca", "gmca", "prtemca", "pmixmca"}
# Options of horovodrun (Horovod 0.28.1, horovod/runner/launch.py), without the dashes.
_HOROVODRUN_SIZES = {"np": "ranks", "num-proc": "ranks"}
_HOROVODRUN_OF_THE_JOB = {
    "H", "hosts", "hostfile", "p", "ssh-port", "i", "ssh-identity-file", "network-interface", "network-interfaces",
    "start-timeout",
}  # fmt: skip
_HOROVODRUN_SWITCHES = {"mpi", "verbose", "disable-cache"}
_HOROVODRUN_MODULE = "horovod.runner.launch"
_LAUNCHER_OF_MODULE = {
    "accelerate.commands.launch": "accelerate", "deepspeed.launcher.runner": "deepspeed",
    _HOROVODRUN_MODULE: "horovodrun",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Pasted:
    """A program without its launcher, and what the launcher said."""

    program: tuple[str, ...]
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """`workers`, `processes` (of a worker) and `ranks` (of all), as far as it named them."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that the command sets in front of the program, or by -x of mpirun."""
    options: tuple[str, ...] = ()
    """Further options of mpirun."""
    left_out: tuple[str, ...] = ()
    """Options with their values, and variables, that are not passed on because the job has its own."""


def split(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command that may have been pasted as one text in quotes, as arena's are.

    Raises:
        RefusalError: the text is not the words of one program: it needs a shell.
    """
    if len(words) != 1 or not any(character.isspace() for character in words[0]):
        return tuple(words)
    continued = words[0].replace("\\\n", " ")  # single quotes keep what continues a line
    reader = shlex.shlex(continued, posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    try:
        command = tuple(reader)
    except ValueError as error:
        raise RefusalError("command", words[0], f"is not a command: {error}", "close its quotes") from None
    operator = next((word for word in command if set(word) <= _OPERATORS), None)
    if operator is not None or not command:
        limit = f"{operator} needs a shell" if operator else "is empty"
        fix = "put it into a script, or write `--kind batch -- sh -c '…'`"
        raise RefusalError("command", words[0], limit, fix)
    return command


def read_program(words: Sequence[str]) -> Pasted:
    """Return what a pod is to run.

    Raises:
        RefusalError: there is nothing behind the variables.
    """
    variables, program = leading_variables(words)
    return Pasted(program=program, env=variables)


def read_pytorch(words: Sequence[str]) -> Pasted:
    """Return what torchrun is to run: a script or -m and a module, with arguments.

    Raises:
        RefusalError: torchrun has an option that the job cannot honour, or the command is not of Python.
    """
    variables, behind = leading_variables(words)
    return replace(_pytorch(behind), env=variables)


def _pytorch(words: Sequence[str]) -> Pasted:
    path = PurePosixPath(words[0])
    if path.name == "torchrun":
        return _torchrun(words[1:])
    if words[0] in {"-m", _ANY_PROGRAM} or path.suffix == ".py":
        rest = list(words)
    elif _PYTHON.fullmatch(path.name):
        rest = list(words[1:])
    else:
        raise _not_of_python(path.name, words)
    while rest[:1] == ["-u"]:  # pods print without a buffer anyway
        rest.pop(0)
    module = rest[1] if rest[:1] == ["-m"] and len(rest) > 1 else None
    if module in _TORCHRUN_MODULES:
        return _torchrun(rest[2:])
    if module in _LAUNCHER_OF_MODULE:
        raise _not_of_python(_LAUNCHER_OF_MODULE[module], words)
    if not rest or (rest[0].startswith("-") and rest[0] != _ANY_PROGRAM and module is None):
        raise _not_of_python(path.name, words)
    return Pasted(program=tuple(rest))


def _not_of_python(name: str, words: Sequence[str]) -> RefusalError:
    """Return the refusal of what torchrun would read as a Python file in every rank, and fail."""
    script = next((word for word in words if word.endswith(".py")), "train.py")
    if name in {*_MPIRUN, "horovodrun"}:
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
    pasted = Pasted(program=())
    in_front: tuple[str, ...] = ()
    while rest and rest[0].startswith("-") and rest[0] not in {"-m", "--module"}:
        option = rest.pop(0)
        name, value = _split(option)
        name = name.replace("_", "-")
        if name == "standalone":
            continue
        if name == _ANY_PROGRAM.strip("-"):
            in_front = (_ANY_PROGRAM,)
            continue
        if name not in {*_TORCHRUN_SIZES, *_TORCHRUN_OF_THE_JOB}:
            raise _unknown("torchrun", option)
        value = _value(option, value, rest)
        if name in _TORCHRUN_SIZES:
            pasted = _with_size(pasted, _TORCHRUN_SIZES[name], option, value)
        else:
            pasted = _without(pasted, option, value)
    if rest[:1] == ["--module"]:
        rest[0] = "-m"
    return replace(pasted, program=(*in_front, *_program("torchrun", rest)))


def read_mpi(words: Sequence[str]) -> Pasted:
    """Return what mpirun is to start in every slot.

    Raises:
        RefusalError: mpirun has an option that the job cannot honour, or is to start a launcher.
    """
    variables, behind = leading_variables(words)
    pasted = Pasted(program=())
    for variable, content in variables.items():
        pasted = _with_variable(pasted, variable, content)
    pasted = _mpi(pasted, behind)
    first = PurePosixPath(pasted.program[0]).name
    if launcher := first if first in OF_PYTHON_FILES else launcher_in(pasted.program):
        limit = "the job runs mpirun itself, which would start this in every slot as a separate world"
        fix = "write only the program, such as python train.py, and set the ranks with --workers and --processes"
        raise RefusalError("command", launcher, limit, fix)
    return pasted


def _mpi(pasted: Pasted, words: Sequence[str]) -> Pasted:
    name = PurePosixPath(words[0]).name
    if name in _MPIRUN:
        return _mpirun(pasted, words)
    if name == "horovodrun":
        return _horovodrun(pasted, words[1:])
    if _PYTHON.fullmatch(name) and tuple(words[1:3]) == ("-m", _HOROVODRUN_MODULE):
        return _horovodrun(pasted, words[3:])
    return replace(pasted, program=tuple(words))


def _with_variable(pasted: Pasted, variable: str, content: str, *option: str) -> Pasted:
    if is_variable_of_the_start(variable):
        return _without(pasted, *option, f"{variable}={content}")
    return replace(pasted, env={**pasted.env, variable: content})


def _mpirun(pasted: Pasted, words: Sequence[str]) -> Pasted:
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        pasted = _mpirun_option(pasted, rest)
    if ":" in rest:
        limit = "several programs in one mpirun: the job starts one in every slot"
        raise RefusalError("command", ":", limit, "write one program that chooses by its rank, or several runs")
    return replace(pasted, program=_program(words[0], rest))


def _horovodrun(pasted: Pasted, words: Sequence[str]) -> Pasted:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        name, value = _split(option)
        if name in _HOROVODRUN_SWITCHES:
            continue
        if name not in {*_HOROVODRUN_SIZES, *_HOROVODRUN_OF_THE_JOB}:
            limit = "the job starts mpirun instead of horovodrun, and cannot pass this option on"
            fix = "omit it; Horovod reads most settings as variables, too, such as --env HOROVOD_TIMELINE=FILE"
            raise RefusalError("command", option, limit, fix)
        value = _value(option, value, rest)
        if name in _HOROVODRUN_SIZES:
            pasted = _with_size(pasted, _HOROVODRUN_SIZES[name], option, value)
        else:
            pasted = _without(pasted, option, value)
    return replace(pasted, program=_program("horovodrun", rest))


def _mpirun_option(pasted: Pasted, rest: list[str]) -> Pasted:
    """Take one option and its values from the front of `rest`."""
    option = rest.pop(0)
    name, value = _split(option)
    if name in _MPIRUN_SWITCHES:
        return pasted
    if name in _MPIRUN_SETTINGS:
        setting = (option, _value(option, None, rest), _value(option, None, rest))
        if is_of_the_start(setting[1]):
            return _without(pasted, *setting)
        return replace(pasted, options=(*pasted.options, *setting))
    if name == "x":
        # Without a value it passes on what the pods have anyway.
        variable, equals, content = _value(option, value, rest).partition("=")
        return _with_variable(pasted, variable, content, option) if equals else pasted
    if name in _MPIRUN_SIZES:
        return _with_size(pasted, _MPIRUN_SIZES[name], option, _value(option, value, rest))
    if name in _MPIRUN_OF_THE_JOB:
        return _without(pasted, option, _value(option, value, rest))
    raise _unknown("mpirun", option)


def _with_size(pasted: Pasted, size: str, option: str, value: str) -> Pasted:
    return replace(pasted, sizes={**pasted.sizes, size: _number(option, value)})


def _without(pasted: Pasted, option: str, *values: str) -> Pasted:
    typed = [option] if "=" in option else [option, *values]
    return replace(pasted, left_out=(*pasted.left_out, shlex.join(typed)))


def _split(option: str) -> tuple[str, str | None]:
    name, equals, value = option.lstrip("-").partition("=")
    return name, value if equals else None


def _value(option: str, value: str | None, rest: list[str]) -> str:
    if value is not None:
        return value
    if not rest:
        raise RefusalError("command", option, "has no value", f"write a value behind {option}, or omit it")
    return rest.pop(0)


def _number(option: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise RefusalError("command", f"{option} {value}", "must be a number here", "use --workers and --processes")
    return int(value)


def _unknown(launcher: str, option: str) -> RefusalError:
    limit = f"the job starts {launcher} itself, and cannot pass this option on"
    return RefusalError("command", option, limit, f"omit it, or write only the program, without {launcher}")


def _program(launcher: str, rest: Sequence[str]) -> tuple[str, ...]:
    if not rest:
        raise RefusalError("command", launcher, "starts nothing", "write the program behind its options")
    return tuple(rest)
