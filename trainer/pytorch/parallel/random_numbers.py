"""Random number states in a checkpoint, and their assignment to the ranks of another layout."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

from trainer.pytorch.runtime import random_state, set_random_state

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch import Tensor

    from trainer.pytorch.distributed import Distributed
    from trainer.pytorch.parallel.layout import Layout

    States = dict[str, dict[str, Tensor]]
    """Random states by the names of ranks."""

logger = logging.getLogger(__name__)

_ENTRY = "random"
"""Entry of a run's state."""


def states_to_save(distributed: Distributed) -> States:
    """Return the state of this rank, one entry per rank: equal names would be stored once for all ranks."""
    return {_name(distributed.rank): random_state(distributed.device)}


def to_load(
    distributed: Distributed, layout: Layout, names: Collection[str], *, saved_by_ranks: int
) -> dict[str, States]:
    """Return the entry "random" to read the state into that this rank continues with, or nothing.

    It is that of the first rank of the tensor-parallel group. The ranks of a group compute the same samples and must
    drop the same activations, but they may have been ranks with samples of their own in the layout that was saved.

    Nothing is read that another number of ranks or another kind of device has saved: the samples continue exactly,
    dropout does not.

    Args:
        distributed: The ranks.
        layout: Where this one is.
        names: Of all values in the checkpoint.
        saved_by_ranks: How many ranks have saved it.
    """
    if saved_by_ranks != distributed.world_size:
        return {}
    rank, state = _name(distributed.rank - layout.tensor_rank), random_state(distributed.device)
    saved = {name.removeprefix(f"{_ENTRY}.{rank}.") for name in names if name.startswith(f"{_ENTRY}.{rank}.")}
    if saved != state.keys():
        if distributed.is_main:
            what = f"the checkpoint has those of {_devices(saved)}, this run draws from {_devices(state)}"
            logger.warning("random numbers: %s: the samples continue exactly, dropout does not", what)
        return {}
    return {_ENTRY: {rank: state}}


def continue_from(states: States, distributed: Distributed, layout: Layout) -> None:
    """Continue with what was read into what `to_load` returned; collective.

    Ranks with samples of their own that were one tensor-parallel group have drawn the same numbers so far and would go
    on like that. All keep the numbers that follow from the seed then.
    """
    [state] = states.values()
    if not _shared(distributed.gather((layout.pipeline_rank, layout.data_rank, _digest(state)))):
        set_random_state(state, distributed.device)


def _shared(of_ranks: list[tuple[int, int, str]]) -> bool:
    """Return whether ranks of one stage that have different samples have the same state."""
    data_ranks: dict[tuple[int, str], int] = {}
    return any(data_ranks.setdefault((stage, digest), data) != data for stage, data, digest in of_ranks)


def _digest(state: dict[str, Tensor]) -> str:
    content = hashlib.sha256()
    for device in sorted(state):
        content.update(state[device].cpu().numpy().tobytes())  # pyright: ignore[reportUnknownMemberType]
    return content.hexdigest()


def _devices(names: Collection[str]) -> str:
    return " and ".join(sorted(names)) or "no device"


def _name(rank: int) -> str:
    return f"rank_{rank:05d}"
