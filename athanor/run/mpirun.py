"""Parser of pasted mpirun and horovodrun commands. The job starts mpirun itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from athanor.run.pasted import Pasted, split_option, unknown_option, value_of
from athanor.run.variables import is_of_the_start, is_variable_of_the_start, leading_variables
from infra.errors import RefusalError
from workloads.launchers import HOROVODRUN_MODULE, OF_PYTHON_FILES, OPEN_MPI, PYTHON, launcher_in
from workloads.mpi import BINDINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

# Options of mpirun (Open MPI 4.1 and 5.0, mpirun(1)), without the dashes.
_SIZES = {"np": "ranks", "n": "ranks", "c": "ranks", "N": "processes", "npernode": "processes"}
_OF_THE_JOB = {"hostfile", "machinefile", "default-hostfile", "H", "host", "map-by"}
_BINDING = "bind-to"
_SWITCHES = {"allow-run-as-root", "oversubscribe", "tag-output", "q", "v"}
_SETTINGS = {"mca", "gmca", "prtemca", "pmixmca"}
# Options of horovodrun (Horovod 0.28.1, horovod/runner/launch.py), without the dashes.
_HOROVODRUN_SIZES = {"np": "ranks", "num-proc": "ranks"}
_HOROVODRUN_OF_THE_JOB = {
    "H", "hosts", "hostfile", "p", "ssh-port", "i", "ssh-identity-file", "network-interface", "network-interfaces",
    "start-timeout",
}  # fmt: skip
_HOROVODRUN_SWITCHES = {"mpi", "verbose", "disable-cache"}


def read_mpi(words: Sequence[str]) -> Pasted:
    """Return the program that mpirun is to start in every slot.

    Raises:
        RefusalError: mpirun has an option that the job cannot honour, or is to start a launcher.
    """
    variables, behind = leading_variables(words)
    pasted = Pasted()
    for variable, content in variables.items():
        pasted = _with_variable(pasted, variable, content)
    pasted = _mpi(pasted, behind)
    first = PurePosixPath(pasted.program[0]).name
    if launcher := first if first in OF_PYTHON_FILES else launcher_in(pasted.program):
        limit = "the job runs mpirun itself, which would start this in every slot as a separate world"
        fix = "write only the program, such as python train.py, and set the ranks with --workers and --processes"
        raise RefusalError("command", launcher, limit, fix)
    if first.startswith("-"):
        limit = "would be read as an option of mpirun"
        raise RefusalError("command", first, limit, f"start with the program: python3 {first} …")
    return pasted


def _mpi(pasted: Pasted, words: Sequence[str]) -> Pasted:
    name = PurePosixPath(words[0]).name
    if name in OPEN_MPI:
        return _mpirun(pasted, words)
    if name == "horovodrun":
        return _horovodrun(pasted, words[1:])
    if PYTHON.fullmatch(name) and tuple(words[1:3]) == ("-m", HOROVODRUN_MODULE):
        return _horovodrun(pasted, words[3:])
    return replace(pasted, program=tuple(words))


def _with_variable(pasted: Pasted, variable: str, content: str, *option: str) -> Pasted:
    if is_variable_of_the_start(variable):
        return pasted.without(*option, f"{variable}={content}")
    return replace(pasted, env={**pasted.env, variable: content})


def _mpirun(pasted: Pasted, words: Sequence[str]) -> Pasted:
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        pasted = _mpirun_option(pasted, rest)
    if ":" in rest:
        limit = "several programs in one mpirun: the job starts one in every slot"
        raise RefusalError("command", ":", limit, "write one program that chooses by its rank, or several runs")
    return pasted.starting(words[0], rest)


def _horovodrun(pasted: Pasted, words: Sequence[str]) -> Pasted:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        name, value = split_option(option)
        if name in _HOROVODRUN_SWITCHES:
            continue
        if name not in {*_HOROVODRUN_SIZES, *_HOROVODRUN_OF_THE_JOB}:
            limit = "the job starts mpirun instead of horovodrun, and cannot pass this option on"
            fix = "omit it; Horovod reads most settings as variables, too, such as --env HOROVOD_TIMELINE=FILE"
            raise RefusalError("command", option, limit, fix)
        value = value_of(option, value, rest)
        if name in _HOROVODRUN_SIZES:
            pasted = pasted.with_size(_HOROVODRUN_SIZES[name], option, value)
        else:
            pasted = pasted.without(option, value)
    return pasted.starting("horovodrun", rest)


def _mpirun_option(pasted: Pasted, rest: list[str]) -> Pasted:
    """Take one option and its values from the front of `rest`."""
    option = rest.pop(0)
    name, value = split_option(option)
    if name in _SWITCHES:
        return pasted
    if name in _SETTINGS:
        setting = (option, value_of(option, None, rest), value_of(option, None, rest))
        if is_of_the_start(setting[1]):
            return pasted.without(*setting)
        return replace(pasted, options=(*pasted.options, *setting))
    if name == "x":
        # Without a value it passes on what the pods have anyway.
        variable, equals, content = value_of(option, value, rest).partition("=")
        return _with_variable(pasted, variable, content, option) if equals else pasted
    if name not in {*_SIZES, *_OF_THE_JOB, _BINDING}:
        raise unknown_option("mpirun", option)
    return _with_value(pasted, option, name, value_of(option, value, rest))


def _with_value(pasted: Pasted, option: str, name: str, value: str) -> Pasted:
    if name in _SIZES:
        return pasted.with_size(_SIZES[name], option, value)
    binding = next((each for each in BINDINGS if each == value), None) if name == _BINDING else None
    return replace(pasted, bind_to=binding) if binding else pasted.without(option, value)
