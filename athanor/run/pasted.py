"""Pasted commands: their words, and the launchers that the job starts itself."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from athanor.run.shell_words import shell_words
from athanor.run.variables import leading_variables
from infra.errors import RefusalError
from workloads.launchers import launcher_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workloads.mpi import Binding


@dataclass(frozen=True, kw_only=True)
class Pasted:
    """A program without its launcher, and what the launcher said."""

    program: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """`workers`, `processes` (of a worker) and `ranks` (of all), as far as it named them."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that the command sets in front of the program, or by -x of mpirun."""
    bind_to: Binding | None = None
    """Object that mpirun is to pin each rank to; None: it did not say, or not as `MPIJobArgs.bind_to` can."""
    options: tuple[str, ...] = ()
    """Further options of mpirun."""
    left_out: tuple[str, ...] = ()
    """Options with their values, and variables, that are not passed on because the job has its own."""

    def with_size(self, size: str, option: str, value: str) -> Pasted:
        """Return the same with one of the sizes.

        Raises:
            RefusalError: it is not a number.
        """
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            limit = "must be a number here"
            raise RefusalError("command", f"{option} {value}", limit, "use --workers and --processes")
        return replace(self, sizes={**self.sizes, size: int(value)})

    def without(self, option: str, *values: str) -> Pasted:
        """Return the same, and that this option or variable is left out."""
        typed = [option] if "=" in option else [option, *values]
        return replace(self, left_out=(*self.left_out, shlex.join(typed)))

    def starting(self, launcher: str, program: Sequence[str]) -> Pasted:
        """Return the same with a program.

        Args:
            launcher: What it comes after.
            program: Its words.

        Raises:
            RefusalError: there are none.
        """
        if not program:
            raise RefusalError("command", launcher, "starts nothing", "write the program after its options")
        return replace(self, program=tuple(program))


def split_option(option: str) -> tuple[str, str | None]:
    """Return an option's name without dashes, and its value if that comes after an equals sign."""
    name, equals, value = option.lstrip("-").partition("=")
    return name, value if equals else None


def value_of(option: str, value: str | None, rest: list[str]) -> str:
    """Return the value of an option, which is taken from the front of `rest` unless it came after an equals sign.

    Raises:
        RefusalError: there is none.
    """
    if value is not None:
        return value
    if not rest:
        raise RefusalError("command", option, "has no value", f"write a value after {option}, or omit it")
    return rest.pop(0)


def unknown_option(launcher: str, option: str) -> RefusalError:
    """Return the refusal of an option that the job cannot honour."""
    limit = f"the job starts {launcher} itself, and cannot pass this option on"
    return RefusalError("command", option, limit, f"omit it, or write only the program, without {launcher}")


def split(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command that may have been pasted as one text in quotes, as arena's are.

    Raises:
        RefusalError: as `shell_words`.
    """
    if len(words) != 1 or not any(character.isspace() for character in words[0]):
        return tuple(words)
    return shell_words("command", words[0])


def read_program(words: Sequence[str]) -> Pasted:
    """Return the program that a pod is to run.

    Raises:
        RefusalError: there is nothing after the variables.
    """
    variables, program = leading_variables(words)
    return Pasted(program=program, env=variables)


def read_tensorflow(words: Sequence[str]) -> Pasted:
    """Return the program that a pod of a TensorFlow job is to run.

    Raises:
        RefusalError: as `read_program`, or it is a launcher.
    """
    pasted = read_program(words)
    if launcher := launcher_in(pasted.program):
        limit = "would start several processes with one TF_CONFIG, which describes one per pod"
        fix = (
            "write only the program, such as python train.py; or use --kind mpi for mpirun and horovodrun, --kind "
            "pytorch for torchrun"
        )
        raise RefusalError("command", launcher, limit, fix)
    return pasted
