"""Environment variables in front of a command, as in `A=1 python train.py`, and those that break MPI's start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Sequence

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL | re.ASCII)
"""An assignment as a shell recognises it: other words with an equals sign are the name of a program to it."""
_SETTING_OF_ENV = re.compile(r"[^-=][^=]*=.*", re.DOTALL)
"""An assignment as env(1) recognises it."""
_MPI_VARIABLE = re.compile(r"(?:OMPI|PRTE)_MCA_(?P<setting>\w+)")
_OF_THE_START = re.compile(
    r"""pl[ms]|(?:plm|pls)_(?:rsh|ssh)_\w+|orte_rsh_agent         # how the ranks are started: by ssh, with a key
    |(?:orte|prte)_default_(?:hostfile|dash_host)|prte_hostfile   # where
    |(?:btl_tcp|oob_tcp|prte)_if_(?:include|exclude)              # over which interface they connect
    """,
    re.VERBOSE,
)
"""Settings of Open MPI 4.1 and 5.0 (ompi_info(1), prte-info(1)) that the job has: `workloads.mpi` and its hostfile."""


def leading_variables(words: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables in front of a command, and the command after them.

    `env` counts as part of them, unless it has options, which only env itself can honour.

    Raises:
        RefusalError: nothing comes after them.
    """
    by_env = words[:1] == ["env"] and not (len(words) > 1 and words[1].startswith("-"))
    pattern, rest = (_SETTING_OF_ENV, list(words[1:])) if by_env else (_ASSIGNMENT, list(words))
    variables: dict[str, str] = {}
    while rest and pattern.fullmatch(rest[0]):
        name, _, value = rest.pop(0).partition("=")
        variables[name] = value
    if not rest:
        names = " ".join(f"{name}=…" for name in variables) or "env"
        raise RefusalError("command", names, "starts nothing", "write the program after the variables")
    return variables, tuple(rest)


def with_env(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command with its leading variables as words of env(1), for where no shell sets them.

    Raises:
        RefusalError: as `leading_variables`.
    """
    variables, program = leading_variables(words)
    return ("env", *(f"{name}={value}" for name, value in variables.items()), *program) if variables else tuple(words)


def is_of_the_start(setting: str) -> bool:
    """Return whether a setting of Open MPI, such as plm_rsh_args, decides how and where the job's ranks start."""
    return _OF_THE_START.fullmatch(setting) is not None


def is_variable_of_the_start(variable: str) -> bool:
    """Return whether an environment variable holds such a setting."""
    match = _MPI_VARIABLE.fullmatch(variable)
    return match is not None and is_of_the_start(match["setting"])
