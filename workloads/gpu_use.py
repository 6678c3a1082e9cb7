"""Refusal of GPUs that the platform's own programs would not use, before they cost money."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workloads.job_args import JobArgs
    from workloads.roles import PodArgs

_PARAMETER_SERVER = {"trainer.tf.parameter_server"}
_OF_TORCHRUN = {"trainer.train", "trainer.network_benchmark"}
_TRAINERS = {*_OF_TORCHRUN, "trainer.mpi_example"}
"""The platform's programs that train in ranks."""
_GPUS_USED = "--num_gpu"
"""Their option for the GPUs of a worker. Default: all that it sees."""


def check_trainer_ranks(args: JobArgs, program: Sequence[str], field: str, ranks: int) -> None:
    """Refuse numbers of ranks with which the platform's trainer would not start: each of its ranks uses one GPU.

    Args:
        args: The job.
        program: What the launcher starts in every rank.
        field: What the user calls the ranks of a worker.
        ranks: How many it has.

    Raises:
        RefusalError: GPUs would be unused, or missing.
    """
    if not _runs(_TRAINERS, args, program):
        return
    visible, said = args.resources.visible_gpus, _gpus_used(program)
    if said is None and visible not in {0, ranks}:
        limit = f"the trainer uses one GPU per rank, and a worker has {_counted(visible, 'GPU')}"
        raise RefusalError(field, ranks, limit, f"omit it, or add {_GPUS_USED}=0 to the program to train on the CPU")
    if said and said > visible:
        limit = f"a worker has {_counted(visible, 'GPU')}"
        raise RefusalError("program", f"{_GPUS_USED}={said}", limit, f"request as many GPUs, or omit {_GPUS_USED}")
    if said and said != ranks:
        limit = f"the trainer uses one GPU per rank, and a worker has {_counted(ranks, 'rank')}"
        raise RefusalError("program", f"{_GPUS_USED}={said}", limit, f"omit {_GPUS_USED}, or use one rank per GPU")


def check_mpi_launch(args: JobArgs, program: Sequence[str], launcher: PodArgs) -> None:
    """Refuse what mpirun cannot start as one job: programs that take their ranks from torchrun, and GPUs of its pod.

    Raises:
        RefusalError: each rank would train alone, in the others' folder, or GPUs would be unused.
    """
    if _runs(_OF_TORCHRUN, args, program):
        limit = "takes its ranks from torchrun: mpirun would start as many trainings of one rank"
        fix = "use trainer.mpi_example, or a PyTorchJob"
        raise RefusalError("program", " ".join(program[:4]), limit, fix)
    if launcher.resources.visible_gpus:
        limit = "the launcher computes nothing"
        raise RefusalError("launcher.resources.gpus", launcher.resources.visible_gpus, limit, "omit it")


def check_parameter_server_gpus(args: JobArgs, program: Sequence[str], chief: PodArgs | None) -> None:
    """Refuse GPUs that the platform's program for parameter servers would not use.

    Raises:
        RefusalError: the chief has some, or a worker more than one and the program does not say how many to use.
    """
    if chief and chief.resources.visible_gpus and _runs(_PARAMETER_SERVER, args, program):
        limit = "the chief of trainer.tf.parameter_server computes nothing"
        raise RefusalError("chief.resources.gpus", chief.resources.visible_gpus, limit, "omit it")
    visible = args.resources.visible_gpus
    if visible > 1 and _runs(_PARAMETER_SERVER, args, program) and _gpus_used(program) is None:
        limit = "a worker of trainer.tf.parameter_server uses one GPU"
        raise RefusalError("resources.gpus", visible, limit, "request one GPU, and more workers")


def _runs(modules: set[str], args: JobArgs, program: Sequence[str]) -> bool:
    """Return whether a program is one of the platform's; in another image or code it may only have the same name."""
    if args.image is not None or args.source is not None:
        return False
    return any(word in {"-m", "--module"} and module in modules for word, module in pairwise(program))


def _gpus_used(program: Sequence[str]) -> int | None:
    """Return the GPUs that a program is to use; None where it takes all that it sees.

    Raises:
        RefusalError: it is to use something else than a number of GPUs.
    """
    said = _value_of(_GPUS_USED, program)
    if said is None or said == "None":
        return None
    if not (said.isascii() and said.isdecimal()):
        limit = "is not a number of GPUs, 0 or more"
        raise RefusalError("program", f"{_GPUS_USED}={said}", limit, f"omit {_GPUS_USED}, which takes all GPUs")
    return int(said)


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _value_of(option: str, program: Sequence[str]) -> str | None:
    """Return the value of an option as the trainer takes it: the last one, spelled with `_` or with `-`."""
    said = None
    for word, following in zip(program, (*program[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == option.replace("_", "-"):
            said = value if equals else following
    return said
