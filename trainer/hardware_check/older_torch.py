"""Functions of torch 2.15 that torch 2.11 lacks, for machines whose torch cannot be replaced.

Compared by name with the wheel of torch 2.11.0, which was not run: two functions.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from trainer.pytorch.flight_recorder import PREFIX_VARIABLE

_DUMP = "_dump_fr_trace_file"
_TIMEOUT = "set_timeout"


def adapt() -> None:
    """Add it to the torch of this process."""
    if not hasattr(c10d, _DUMP):
        setattr(c10d, _DUMP, _dump)
    if not hasattr(dist, _TIMEOUT):
        # which sets it for all backends of a group, too
        setattr(dist, _TIMEOUT, dist.distributed_c10d._set_pg_timeout)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportDeprecated]


def _dump(rank: int, *, includeStackTraces: bool, backend: str) -> None:  # noqa: N803  torch's name
    """Write a rank's last collectives to the file that newer versions of torch write them to."""
    recorder: Any = c10d
    of_backend = recorder._dump_nccl_trace if backend == "nccl" else recorder._dump_fr_trace  # noqa: SLF001
    content: bytes = of_backend(includeCollectives=True, includeStackTraces=includeStackTraces, onlyActive=False)
    Path(f"{os.environ[PREFIX_VARIABLE]}{rank}").write_bytes(content)
