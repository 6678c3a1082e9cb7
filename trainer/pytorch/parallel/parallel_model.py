"""A model that the ranks of a layout train together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from trainer.common.validation import SettingsError
from trainer.pytorch.task import count

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from trainer.pytorch.parallel.layout import Layout
    from trainer.pytorch.precision import PrecisionConfig
    from trainer.pytorch.task import Task

    OnLoss = Callable[[Tensor, Tensor, Tensor | None], None]
    """Is called with the sum of the losses of this rank's share, detached, the number of targets that it is of, and the
    part of the sum that is still to be differentiated: None when all gradients are there."""
    Score = Callable[[Tensor, Tensor], Tensor]
    """Sums over the targets of a batch, from logits [N, ..., classes] and targets int64 [N, ...]: the loss without
    dimensions, or [figures] of a task."""


_LEFT_OUT = "Expected to have finished reduction in the prior iteration"
"""Beginning of DistributedDataParallel's message about parameters without a gradient (torch 2.15)."""


class ParallelModel(ABC):
    """One rank's part of a model.

    Attributes:
        module: the parameters of this rank under the names that they have in the whole model.
        layout: where this rank is.
    """

    def __init__(self, module: nn.Module, layout: Layout) -> None:
        self.module = module
        self.layout = layout

    @property
    def computed(self) -> Sequence[nn.Module]:
        """The modules whose forward passes compute this rank's part."""
        return (self.module,)

    def reshard(self) -> None:
        """Restore this rank's own shards as parameters, where passes without gradients left whole ones.

        Checkpoints and the optimizer know the shards alone.
        """
        for computed in self.computed:
            for each in computed.modules():
                if isinstance(each, FSDPModule):
                    each.reshard()

    @property
    @abstractmethod
    def computes_alone(self) -> bool:
        """Whether `module` is the whole model, and can be called without the other ranks."""

    @abstractmethod
    def forward_backward(self, inputs: Tensor, targets: Tensor, on_loss: OnLoss) -> None:
        """Compute the gradient of a sum of losses; `on_loss` is called once.

        The sum is over the counted targets of this rank's share of the batch, and the gradient is the mean of the
        data-parallel ranks' gradients. `gradients.clip` turns it into the gradient of the mean loss once it is known
        how many targets all ranks counted. Where the sum is known before the last backward pass, `on_loss` is called
        then.
        """

    @abstractmethod
    def score(self, inputs: Tensor, targets: Tensor, score: Score) -> Tensor | None:
        """Return a score of the model without gradients; None where the layout has the logits on other ranks.

        In microbatches, as in training: of the logits, which may be larger than all else, only those of one are there.
        Collective: ranks that share parameters or layers call it together, with as many samples as in training.
        """


class WholeModel(ParallelModel):
    """All layers on every rank: whole, sharded over the ranks, or divided between them."""

    def __init__(
        self, module: nn.Module, layout: Layout, task: Task, precision: PrecisionConfig, microbatches: int
    ) -> None:
        super().__init__(module, layout)
        self._task = task
        self._precision = precision
        self._microbatches = microbatches
        self._called = module if isinstance(module, FSDPModule) or layout.tensor_mesh else _replicated(module)

    @property
    def computes_alone(self) -> bool:
        """See `ParallelModel.computes_alone`."""
        return self._called is not self.module

    def forward_backward(self, inputs: Tensor, targets: Tensor, on_loss: OnLoss) -> None:
        """See `ParallelModel.forward_backward`: microbatches one after the other, one exchange of gradients."""
        parts = self._parts(inputs, targets)
        sum_of_losses = torch.zeros((), device=targets.device)
        for index, (part, part_targets) in enumerate(parts, start=1):
            is_last = index == len(parts)
            with self._exchange(at_end=is_last):
                with _naming_left_out_layers():
                    logits = self._precision.compute(self._called, part)
                loss = self._task.loss_sum(logits, part_targets)
                sum_of_losses += loss.detach()
                if is_last:
                    on_loss(sum_of_losses, count(targets), loss)
                loss.backward()  # pyright: ignore[reportUnknownMemberType]

    def score(self, inputs: Tensor, targets: Tensor, score: Score) -> Tensor:
        """See `ParallelModel.score`."""
        with torch.no_grad():
            scores = [
                score(self._precision.compute(self.module, part), part_targets)
                for part, part_targets in self._parts(inputs, targets)
            ]
        return torch.stack(scores).sum(dim=0)

    def _parts(self, inputs: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
        return list(zip(inputs.chunk(self._microbatches), targets.chunk(self._microbatches), strict=True))

    def _exchange(self, *, at_end: bool) -> AbstractContextManager[None]:
        """Let the passes inside exchange gradients with other ranks at their end, or only add them up here."""
        if isinstance(self._called, FSDPModule):
            self._called.set_requires_gradient_sync(at_end)
        elif isinstance(self._called, DistributedDataParallel) and not at_end:
            return self._called.no_sync()
        return nullcontext()


@contextmanager
def _naming_left_out_layers() -> Generator[None]:
    """Say what to do about a model that leaves out layers in some steps, whose gradients replicas wait for.

    torch notices at the next forward pass, and speaks of its own options.

    Raises:
        SettingsError: the step before did not compute all layers.
    """
    try:
        yield
    except RuntimeError as error:
        if _LEFT_OUT not in str(error):
            raise
        limit = "the step before left out some of them, and replicas wait for the gradients of all"
        fix = "Fix: let each step compute all layers, such as times 0 instead of not at all"
        raise SettingsError(f"layers of the model: {limit}. {fix}") from error


def _replicated(module: nn.Module) -> nn.Module:
    return DistributedDataParallel(module, gradient_as_bucket_view=True)
