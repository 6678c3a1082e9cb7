"""Agreement among ranks: in every step their mean loss, whether it is finite everywhere, and whether to stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch

from trainer.pytorch.task import mean_over_counted

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
    """Mean over the counted targets of this rank's share of the batch."""
    loss: float
    """Mean over the counted targets of the batch; 0 without any."""
    counted: float
    """Targets, counted once for each rank that computes a loss of them together."""
    bad_ranks: int
    """Ranks whose loss is not finite."""
    stopping_ranks: int
    """Ranks that were asked to stop."""
    gradient_norm: float
    """The norm given to `Agreement.wait`."""


class Agreement:
    """One sum over all ranks, on its way while gradients are computed.

    The host waits for its GPU once in a step, in `wait`: for all that decides whether the parameters may change.
    """

    def __init__(self, distributed: Distributed, own: Stopwatch, *, stop_requested: bool) -> None:
        self._distributed = distributed
        self._own = own
        self._stop_requested = stop_requested
        self._sent: tuple[Tensor, Tensor, dist.Work] | None = None

    def start(self, loss_sum: Tensor, counted: Tensor, rest: Tensor | None) -> None:
        """Send what this rank has to say, and let the stopwatch end with its gradients; see `OnLoss`.

        Args:
            loss_sum: Of this rank, detached; 0 of a rank that does not compute a loss.
            counted: Targets that it is of.
            rest: What has yet to be differentiated; None when all gradients are there.
        """
        # written by the GPU: a copy of a number of the host's would wait for all that is queued
        stop = torch.full_like(loss_sum, float(self._stop_requested))
        health = torch.stack([each.double() for each in (loss_sum, counted, ~loss_sum.isfinite(), stop)])
        own = health[:2].clone()
        self._sent = own, health, self._distributed.start_sum(health)
        if rest is None:
            self._own.stop()
        else:
            self._own.stop_after_gradients_of(rest)

    def counted(self) -> Tensor:
        """Return `Agreed.counted`, float64 without dimensions, on the device: a GPU waits for the other ranks."""
        _, health, work = self._on_its_way
        work.wait()
        return health[1]

    def wait(self, gradient_norm: Tensor) -> Agreed:
        """Return the sums, when every rank has sent its part.

        Args:
            gradient_norm: Comes along in the one transfer from the device; no dimensions.
        """
        own, health, work = self._on_its_way
        work.wait()
        numbers = torch.cat((own, health, gradient_norm.detach().to(health)[None]))
        own_sum, own_counted, loss_sum, counted, bad, stopping, norm = cast("list[float]", numbers.tolist())  # pyright: ignore[reportUnknownMemberType]
        return Agreed(
            own_loss=mean_over_counted(own_sum, own_counted),
            loss=mean_over_counted(loss_sum, counted),
            counted=counted,
            bad_ranks=int(bad),
            stopping_ranks=int(stopping),
            gradient_norm=norm,
        )

    @property
    def _on_its_way(self) -> tuple[Tensor, Tensor, dist.Work]:
        assert self._sent is not None, "the gradient was computed without a loss"
        return self._sent


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
