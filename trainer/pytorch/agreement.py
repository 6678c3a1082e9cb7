"""What the ranks agree on: in every step their mean loss, whether it is finite anywhere, and whether to stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch.distributed as dist
    from torch import Tensor

    from trainer.pytorch.distributed import Distributed
    from trainer.pytorch.stopwatch import Stopwatch


@dataclass(frozen=True, kw_only=True)
class Agreed:
    """The same on every rank, but for `own_loss`."""

    own_loss: float
    loss_sum: float
    """Sum over all ranks; those that do not compute a loss add 0."""
    bad_ranks: int
    """Ranks whose loss is not finite."""
    stopping_ranks: int
    """Ranks that were asked to stop."""


class Agreement:
    """One sum over all ranks, on its way while gradients are computed."""

    def __init__(self, distributed: Distributed, own: Stopwatch, *, stop_requested: bool) -> None:
        self._distributed = distributed
        self._own = own
        self._stop_requested = stop_requested
        self._sent: tuple[Tensor, Tensor, dist.Work] | None = None

    def start(self, loss: Tensor, rest: Tensor | None) -> None:
        """Send what this rank has to say, and let the stopwatch end with its gradients.

        Args:
            loss: The mean loss of this rank, detached.
            rest: What has yet to be differentiated; None when all gradients are there.
        """
        health = torch.stack((loss, ~loss.isfinite(), loss.new_tensor(self._stop_requested)))
        self._sent = loss, health, self._distributed.start_sum(health)
        if rest is None:
            self._own.stop()
        else:
            self._own.stop_after_gradients_of(rest)

    def wait(self) -> Agreed:
        """Return the sums, when every rank has sent its part."""
        assert self._sent is not None, "the gradient was computed without a loss"
        loss, health, work = self._sent
        work.wait()
        loss_sum, bad, stopping = cast("list[float]", health.tolist())  # pyright: ignore[reportUnknownMemberType]
        return Agreed(own_loss=loss.item(), loss_sum=loss_sum, bad_ranks=int(bad), stopping_ranks=int(stopping))


class StopVote:
    """Whether to continue something that has many parts, such as an evaluation; every rank asks before each part.

    The answer of a part is on its way while the part before is computed, so that nobody waits for it.
    """

    def __init__(self, distributed: Distributed, stop_requested: Callable[[], bool]) -> None:
        """Send what this rank has to say before the first part."""
        self._distributed = distributed
        self._stop_requested = stop_requested
        self._send()

    def go_on(self) -> bool:
        """Return whether no rank had been asked to stop when the part before began; the same on every rank."""
        self._work.wait()
        if self._stopping_ranks.item():
            return False
        self._send()
        return True

    def end(self) -> None:
        """Wait for what is on its way, and for nothing else."""
        self._work.wait()

    def _send(self) -> None:
        self._stopping_ranks = torch.tensor([float(self._stop_requested())])
        self._work = self._distributed.start_sum(self._stopping_ranks)
