"""What the ranks of a program agree on, and whether they were asked to stop."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")
_WORLD_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""From Kubernetes (torchrun passes it on), from terminals and from a job's mpirun: see trainer/training/signals.py."""
STOPPED_EXIT_STATUS = 128 + signal.SIGTERM
"""Status after a stop on request. Not 0: torchrun and Kubernetes would take the unfinished run for a success."""


def rank() -> int:
    """Return this process's number among those that train together; 0 of a single one."""
    return _first(_RANKS, 0)


def local_rank() -> int:
    """Return this process's number among those of its pod."""
    return _first(_LOCAL_RANKS, 0)


def world_size() -> int:
    """Return how many processes train together."""
    return _first(_WORLD_SIZES, 1)


def _first(names: tuple[str, ...], otherwise: int) -> int:
    value = next((os.environ[name] for name in names if name in os.environ), "")
    return int(value) if value.isdecimal() else otherwise


def agreed(said: Sequence[bool]) -> list[bool]:
    """Return for each question whether any rank says yes; every rank asks, and gets the same answers.

    Ranks that have no process group of torch, or none yet, answer for themselves.
    """
    group = _group()
    if group is None:
        return list(said)
    torch = sys.modules["torch"]
    answers = torch.tensor([float(each) for each in said], device="cpu")
    torch.distributed.all_reduce(answers, op=torch.distributed.ReduceOp.MAX, group=group)
    return [each > 0 for each in answers.tolist()]


def wait_for_all() -> None:
    """Return when every rank has come here."""
    agreed([True])


def _group() -> Any | None:  # noqa: ANN401 - torch has the type, and need not be there
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return _own_group(distributed.group.WORLD) if distributed.get_world_size() > 1 else None


@lru_cache(maxsize=1)
def _own_group(world: object) -> Any:  # noqa: ANN401 - as above
    """Return a group for this module's questions: they wait for no GPU, and mix with no collective of the program."""
    del world  # a later one needs a later group
    return sys.modules["torch"].distributed.new_group(backend="gloo")


class StopRequest:
    """Remembers that a stop signal came, in place of ending at once; a second Ctrl-C ends at once."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}
        with suppress(ValueError):  # not in the main thread, which alone may have handlers
            self._previous = {number: signal.signal(number, self._on_signal) for number in _STOP_SIGNALS}

    def close(self) -> None:
        """Put the former handlers back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _on_signal(self, number: int, _frame: object) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
