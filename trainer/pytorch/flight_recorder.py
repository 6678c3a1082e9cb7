"""Dumps of each rank's latest collectives on the output volume, to find out which rank a hung job waited for.

torch's flight recorder holds the last 2,000 collectives of a process and writes them to one file per rank, which the
next dump replaces: less than 1 MB each. They are compared by
`python -m torch.distributed.flight_recorder.fr_trace --prefix rank- <folder>`. Next to them is what the threads of each
rank were doing.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import traceback
from pathlib import Path

from torch._C import _distributed_c10d as c10d

logger = logging.getLogger(__name__)

PREFIX_VARIABLE = "TORCH_FR_DUMP_TEMP_FILE"
"""torch 2.15's name of the setting; TORCH_NCCL_DEBUG_INFO_TEMP_FILE is the former one, still read."""
FOLDER = "flight-recorder"


def keep_in(run_folder: Path) -> None:
    """Let torch write its dumps to a run's folder, unless something else is set: without it they go to /tmp or HOME."""
    os.environ.setdefault(PREFIX_VARIABLE, str(run_folder / FOLDER / "rank-"))


def create_folder() -> None:
    """Create the folder of the dumps: without it torch writes an error message instead of a dump (seen with 2.15)."""
    prefix = os.environ[PREFIX_VARIABLE]
    try:
        Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        logger.warning("%s: cannot be created, collectives will not be recorded: %s", prefix, error.strerror)


def dump_stacks(rank: int, error: BaseException | None = None, *, to_log: bool = True) -> None:
    """Write where all threads of this process are to standard error and next to the dumps, as `stacks-rank-<rank>`.

    Standard error first: the volume may be what hangs. faulthandler takes no lock that a blocked thread may hold.

    Args:
        rank: Of this process.
        error: What ended the wait of this thread, which is no longer where it waited: the error knows.
        to_log: Whether to write to standard error.
    """
    waited = "".join(traceback.format_tb(error.__traceback__)) if error is not None else ""
    begin = f"Where this thread waited (most recent call last):\n{waited}\n".encode() if waited else b""
    try:
        if to_log:
            _write_stacks(begin, sys.__stderr__.fileno() if sys.__stderr__ else 2)
        if prefix := os.environ.get(PREFIX_VARIABLE):
            create_folder()
            path = Path(prefix)
            # a name that does not begin as the dumps do: fr_trace reads every file that does
            with path.with_name(f"stacks-{path.name}{rank}").open("wb") as file:
                _write_stacks(begin, file.fileno())
    except OSError as failure:
        logger.warning("stacks of rank %d could not be written: %s", rank, failure)


def _write_stacks(begin: bytes, descriptor: int) -> None:
    os.write(descriptor, begin)
    faulthandler.dump_traceback(file=descriptor)


def dump(rank: int, *, backend: str) -> None:
    """Write this rank's last collectives; without Python stacks, whose lock a blocked thread may hold."""
    c10d._dump_fr_trace_file(rank, includeStackTraces=False, backend=backend)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
