"""Pipeline parallelism: a model whose layers are on several ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

from trainer.pytorch.parallel.parallel_model import ParallelModel
from trainer.pytorch.task import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn
    from torch.distributed.pipelining.schedules import _PipelineSchedule  # pyright: ignore[reportPrivateUsage]

    from trainer.pytorch.parallel.degrees import ParallelConfig
    from trainer.pytorch.parallel.layout import Layout
    from trainer.pytorch.parallel.parallel_model import OnLoss, Score
    from trainer.pytorch.task import Task


class PipelinedModel(ParallelModel):
    """Some stages of a model on this rank."""

    def __init__(  # noqa: PLR0913  its parts, and how they are computed
        self,
        module: nn.Module,
        stages: Sequence[nn.Module],
        layout: Layout,
        config: ParallelConfig,
        device: torch.device,
        *,
        task: Task,
    ) -> None:
        """Prepare the schedule.

        Args:
            module: All parameters of this rank.
            stages: Modules that share them, in the order of the model.
            layout: Where this rank is.
            config: Which schedule, and how many microbatches.
            device: Where this rank computes.
            task: What the model is trained for.
        """
        super().__init__(module, layout)
        self._stages = stages
        degrees = layout.degrees
        parts = [
            PipelineStage(
                stage,
                layout.pipeline_rank + index * degrees.pipeline,
                degrees.pipeline * degrees.stages_per_rank,
                device,
                group=layout.pipeline_group,
            )
            for index, stage in enumerate(stages)
        ]
        self._task = task
        self._judge: Score = task.loss_sum
        self._schedule: Any = _schedule(parts, config, self._judged)  # its methods have no types
        self._is_first = layout.pipeline_rank == 0

    @property
    def computed(self) -> Sequence[nn.Module]:
        """See `ParallelModel.computed`: the stages."""
        return self._stages

    @property
    def computes_alone(self) -> bool:
        """See `ParallelModel.computes_alone`."""
        return False

    def forward_backward(self, inputs: Tensor, targets: Tensor, on_loss: OnLoss) -> None:
        """See `ParallelModel.forward_backward`; ranks without the last stage report no loss of no target."""
        losses: list[Tensor] = []
        words = (inputs,) if self._is_first else ()
        if self.layout.is_last_stage:
            self._schedule.step(*words, target=targets, losses=losses, return_outputs=False)
        else:
            self._schedule.step(*words, return_outputs=False)
        if losses:
            on_loss(torch.stack(losses).sum().detach(), count(targets), None)
        else:
            on_loss(torch.zeros((), device=targets.device), count(targets[:0]), None)

    def score(self, inputs: Tensor, targets: Tensor, score: Score) -> Tensor | None:
        """See `ParallelModel.score`."""
        scores: list[Tensor] = []
        words = (inputs,) if self._is_first else ()

        def judge(logits: Tensor, targets: Tensor) -> Tensor:
            judged = score(logits, targets)
            # torch 2.15 keeps what a stage returns for a backward pass, also where there is none
            logits.data = logits.new_empty(0)
            return judged

        self._judge = judge
        try:
            with torch.no_grad():
                if self.layout.is_last_stage:
                    self._schedule.eval(*words, target=targets, losses=scores, return_outputs=False)
                else:
                    self._schedule.eval(*words, return_outputs=False)
        finally:
            self._judge = self._task.loss_sum
        return torch.stack(scores).sum(dim=0) if scores else None

    def _judged(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the requested function of a microbatch's logits: a schedule can call one function alone."""
        return self._judge(logits, targets)


def _schedule(stages: list[PipelineStage], config: ParallelConfig, judged: Score) -> _PipelineSchedule:
    how: dict[str, Any] = {"loss_fn": judged, "scale_grads": False}  # the losses are sums
    if config.pipeline_schedule == "interleaved_1f1b":
        return ScheduleInterleaved1F1B([*stages], config.microbatches, **how)
    kind = ScheduleGPipe if config.pipeline_schedule == "gpipe" else Schedule1F1B
    return kind(stages[0], config.microbatches, **how)
