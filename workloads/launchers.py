"""Detection of launchers, such as torchrun, in a command: the job itself starts the processes, so one is too many."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OPEN_MPI = {"mpirun", "mpiexec", "orterun", "prterun"}
MPI_LAUNCHERS = {*OPEN_MPI, "mpiexec.hydra", "horovodrun"}
_LAUNCHERS = {*MPI_LAUNCHERS, "torchrun"}
OF_PYTHON_FILES = {"accelerate", "deepspeed"}
"""Launchers whose scripts also run under torchrun: their libraries read its variables."""
TORCHRUN_MODULES = {"torch.distributed.run", "torch.distributed.launch"}
HOROVODRUN_MODULE = "horovod.runner.launch"
_LAUNCHER_MODULES = {*TORCHRUN_MODULES, HOROVODRUN_MODULE}
_SHELLS = {"sh", "bash", "dash", "ash", "ksh", "zsh"}
_SHELL_SUFFIXES = {f".{shell}" for shell in _SHELLS}
_BEFORE_A_COMMAND = {"exec", "time", "command", "nohup", "env", "if", "then", "else", "while", "do", "!", "{"}
PYTHON = re.compile(r"python[\d.]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SHELL_TEXT = re.compile(r"-[a-z]*c")
_MARKS = "();<>|&\n"
"""Characters that end words in a shell's text."""


def launcher_in(command: Sequence[str]) -> str | None:
    """Return the launcher that a command starts, itself or in the text that it hands to a shell; None without one."""
    for words in commands_in(command):
        program = PurePosixPath(words[0]).name
        if program in _LAUNCHERS:
            return words[0]
        if PYTHON.fullmatch(program) and words[1:2] == ["-m"] and set(words[2:3]) & _LAUNCHER_MODULES:
            return words[2]
    return None


def commands_in(command: Sequence[str]) -> Iterator[list[str]]:
    """Yield the commands that a command consists of, each as its words; at least one."""
    words = _without_prefix(command)
    if not words:
        return
    yield words
    if PurePosixPath(words[0]).name not in _SHELLS:
        return
    for place, word in enumerate(words[1:-1], start=1):
        if _SHELL_TEXT.fullmatch(word):
            yield from _commands_of(words[place + 1])
            return


def _commands_of(text: str) -> Iterator[list[str]]:
    """Yield the commands of a shell's text; none of one whose quotes do not close, which the shell refuses."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=_MARKS)
    lexer.commenters, lexer.whitespace, lexer.whitespace_split = "", " \t\r", True
    try:
        tokens = [*lexer, "\n"]
    except ValueError:
        return
    words: list[str] = []
    is_code, is_target, is_comment = True, False, False
    outer: list[tuple[list[str], bool]] = []
    """What comes before the open brackets."""
    for token in tokens:
        is_comment = is_comment and "\n" not in token
        if not token or not set(token) <= set(_MARKS):
            is_comment = is_comment or token.startswith("#")
            if not is_target and not is_comment:
                words.append(token)
            is_target = False
            continue
        is_target = not is_comment and bool(set(token) & set("<>")) and "(" not in token
        for mark in "" if is_comment or is_target else token:
            if mark == "(":
                is_array = bool(words) and words[-1].endswith("=")
                outer.append((words, is_code))
                words, is_code = [], is_code and not is_array and "((" not in token
                continue
            if is_code and (command := _without_prefix(words)):
                yield command
            words, is_code = outer.pop() if mark == ")" and outer else ([], is_code)


def _without_prefix(words: Sequence[str]) -> list[str]:
    """Return a command without what may come before it: assignments, and words that run the rest."""
    start = 0
    while start < len(words) and (words[start] in _BEFORE_A_COMMAND or _ASSIGNMENT.fullmatch(words[start])):
        start += 1
    return list(words[start:])


def check_mpi_program(program: Sequence[str]) -> None:
    """Refuse a launcher in what mpirun starts in every slot: each would be a world of its own.

    Raises:
        RefusalError: naming it, and what to write instead.
    """
    launcher = launcher_in(program)
    if launcher is None:
        return
    limit = "the job runs mpirun itself, which would start this in every slot as a separate world"
    rest = tuple(program[1:])
    if launcher == program[0] and rest and not rest[0].startswith("-"):
        raise RefusalError("program", launcher, limit, f"omit it: program={rest!r}")
    fix = (
        'write only the program, such as ("python3", "train.py"); set the ranks with workers and slots_per_worker, and '
        "other options of mpirun with mpirun_options"
    )
    raise RefusalError("program", launcher, limit, fix)


def not_for_torchrun(program: Sequence[str]) -> str | None:
    """Return the word that torchrun would take for a Python file: a launcher, interpreter, shell or script; or None."""
    if program[0] == "-m":
        return launcher_in(["python", *program])
    path = PurePosixPath(program[0])
    others = _LAUNCHERS | OF_PYTHON_FILES | _SHELLS
    is_other = path.name in others or path.suffix in _SHELL_SUFFIXES or PYTHON.fullmatch(path.name)
    return program[0] if is_other else None


def check_torchrun_program(program: Sequence[str]) -> None:
    """Refuse what torchrun would take for a Python file.

    Raises:
        RefusalError: naming it, and what to write instead.
    """
    starter = not_for_torchrun(program)
    if starter is None:
        return
    limit = "the job runs torchrun itself, which starts a Python file or module in every rank"
    rest, name = tuple(program[1:]), PurePosixPath(program[0]).name
    if PYTHON.fullmatch(name) and rest and (rest[0] == "-m" or not rest[0].startswith("-")):
        raise RefusalError("program", program[0], limit, f"omit it: program={rest!r}")
    fix = (
        'write only the file or module, such as ("train.py", "--epochs=30") or ("-m", "package.train"); set the ranks '
        "with workers and processes_per_worker"
    )
    raise RefusalError("program", starter, limit, fix)


def check_tensorflow_program(program: Sequence[str]) -> None:
    """Refuse a launcher in what runs once in every pod: TF_CONFIG describes one process.

    Raises:
        RefusalError: naming it, and what to write instead.
    """
    if launcher := launcher_in(program):
        limit = "would start several processes with one TF_CONFIG, which describes one per pod"
        fix = (
            'write only the program, such as ("python3", "train.py"); use MPIJob for mpirun and PyTorchJob for torchrun'
        )
        raise RefusalError("program", launcher, limit, fix)


def check_once(program: Sequence[str], field: str, arguments: Sequence[str]) -> None:
    """Refuse a program that has an argument which another field of the job stands for.

    Args:
        program: What torchrun runs.
        field: The field's name.
        arguments: What the field adds to the program.

    Raises:
        RefusalError: naming the arguments.
    """
    given = {word.partition("=")[0] for word in program} & {word.partition("=")[0] for word in arguments}
    if given:
        limit = f"has {', '.join(sorted(given))}, which {field} sets, too"
        raise RefusalError("program", tuple(program), limit, "write it in one of the two places")
