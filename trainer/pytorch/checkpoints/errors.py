"""Errors of checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed.checkpoint.api import CheckpointException


class CheckpointError(RuntimeError):
    """A checkpoint could not be saved or cannot be used; raised on every rank."""


class DamagedError(Exception):
    """A checkpoint is not what was saved; the message says what is missing or differs."""


def reasons(error: CheckpointException) -> str:
    """Return the failures by rank, in one line."""
    return "; ".join(f"rank {rank}: {failure[0]}" for rank, failure in sorted(error.failures.items()))
