"""The evaluations of one run: their schedule, their distribution over ranks, and their report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.pytorch.agreement import StopVote
from trainer.pytorch.checkpoints import evaluated, folders
from trainer.pytorch.evaluation import mean_score
from trainer.pytorch.parallel import buffers
from trainer.pytorch.parallel.evaluation import sharded_mean_score

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.pytorch.config import TrainConfig
    from trainer.pytorch.data.batches import Batches
    from trainer.pytorch.data.dataset import Dataset
    from trainer.pytorch.data.sampler import GivenBatches
    from trainer.pytorch.distributed import Distributed
    from trainer.pytorch.parallel.parallel_model import ParallelModel
    from trainer.pytorch.reporting.reporter import Reporter


class Evaluations:
    """Judges the model by samples that training has not seen. All methods are collective: every rank calls them."""

    def __init__(  # noqa: PLR0913  what it judges, and how to read it
        self,
        config: TrainConfig,
        model: ParallelModel,
        held_out: Dataset,
        distributed: Distributed,
        reporter: Reporter,
        *,
        read: Callable[..., Batches[GivenBatches]],
    ) -> None:
        self._read = read
        self._config = config
        self._folder = config.folders.checkpoints
        self._model = model
        self._held_out = held_out
        self._distributed = distributed
        self._reporter = reporter

    def evaluate(self, step: int, stop_requested: Callable[[], bool]) -> dict[str, float] | None:
        """Judge the model as it is after a step, and report that.

        Args:
            step: Steps done.
            stop_requested: Whether this rank was asked to stop.

        Returns:
            How good it is, by the names of `Task.scores`, the same on every rank; None where some rank was asked to
            stop: an evaluation may take longer than a pod has then, so it is left to the resumed run.
        """
        self._distributed.allow_checkpoint()
        vote = StopVote(self._distributed, stop_requested)
        means = self._means(vote.go_on)
        vote.end()
        if means is None:
            return None
        scores = self._config.data.task.scores(means)
        self._reporter.on_evaluation(step, scores)
        if self._distributed.is_main:
            best_by = self._config.checkpoint.keep_best
            evaluated.remember(self._folder, step, scores, saved=self._saved(), best_by=best_by)
        return scores

    def is_best(self, step: int) -> bool:
        """Return whether the evaluation after a step, the latest, is the best of those of which there is a checkpoint.

        Never where no best one is kept.
        """
        if self._config.checkpoint.keep_best == "off":
            return False
        return self._distributed.on_main(lambda: evaluated.best(self._folder, self._saved()) == step)

    def is_missing(self, step: int) -> bool:
        """Return whether an earlier process of a run that continues after `step` had no time to evaluate it there."""
        return not self._distributed.on_main(lambda: evaluated.resume_at(self._folder, step))

    def _saved(self) -> set[int]:
        return {step for step, _ in folders.by_step(self._folder)}

    def _means(self, go_on: Callable[[], bool]) -> tuple[float, ...] | None:
        data, model = self._config.data, self._model
        buffers.take_from_main(model)
        if not model.computes_alone:
            return sharded_mean_score(model, self._held_out, data.task, data.batch_size, go_on, read=self._read)
        part = data.batch_size // model.layout.degrees.data // self._config.parallel.microbatches
        return mean_score(
            model.module,
            self._held_out,
            data.task,
            self._distributed,
            go_on,
            samples_per_call=part,
            precision=self._config.precision,
            read=self._read,
        )
