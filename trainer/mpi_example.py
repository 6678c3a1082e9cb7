"""Trains like trainer.train, started by mpirun: `mpirun -np 16 … python3 -m trainer.mpi_example --data_dir …`.

MPI starts the processes and says which is which; the gradients travel over NCCL or gloo as under torchrun.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, cast

from trainer import train

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mpi4py import MPI

_TORCHRUN_NAMES = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
}


class MpiError(RuntimeError):
    """MPI did not start this process, or does not connect those it started."""


def torchrun_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Translate Open MPI's variables of a process into torchrun's names.

    Raises:
        MpiError: some of it is missing.
    """
    absent = [name for name in _TORCHRUN_NAMES.values() if name not in environment]
    if absent:
        fix = "Fix: start it with Open MPI's mpirun, or use trainer.train with torchrun"
        raise MpiError(f"{', '.join(absent)}: not in the environment. {fix}")
    return {ours: environment[theirs] for ours, theirs in _TORCHRUN_NAMES.items()}


def check_sum(world: MPI.Comm) -> None:
    """Add up the ranks over MPI, the first thing to fail where pods cannot reach each other; rank 0 logs the result.

    Raises:
        MpiError: the sum is wrong.
    """
    size = world.Get_size()
    total, expected = world.allreduce(world.Get_rank()), size * (size - 1) // 2
    hosts = cast("list[str]", world.allgather(socket.gethostname()))
    if total != expected:
        raise MpiError(f"MPI added up the ranks 0 to {size - 1} to {total}, not {expected}")
    if world.Get_rank() == 0:
        print(f"mpi: sum of {size} ranks on {len(set(hosts))} hosts is {total}", flush=True)


def share_address(world: MPI.Comm) -> tuple[str, int]:
    """Return rank 0's host name and a port that was free there a moment ago, the same on every rank."""
    address = None
    if world.Get_rank() == 0:
        with socket.socket() as probe:
            probe.bind(("", 0))
            address = (socket.getfqdn(), probe.getsockname()[1])
    return cast("tuple[str, int]", world.bcast(address))


def main() -> None:
    """Run the command line of trainer.train.

    Raises:
        SystemExit: see trainer.train; 1 where MPI is not what it should be.
    """
    try:
        variables = torchrun_variables(os.environ)
        # joins the other processes while it is imported
        from mpi4py import MPI  # noqa: PLC0415

        check_sum(MPI.COMM_WORLD)
    except MpiError as error:
        sys.exit(f"mpi_example: {error}")
    host, port = share_address(MPI.COMM_WORLD)
    os.environ.update(variables, MASTER_ADDR=host, MASTER_PORT=str(port))
    train.main()


if __name__ == "__main__":
    main()
