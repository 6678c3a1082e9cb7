"""The training loop."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from trainer.pod_modules.athanor_heartbeat import Heartbeat
from trainer.pytorch import flight_recorder, initial_weights
from trainer.pytorch.agreement import Agreement
from trainer.pytorch.checkpoints.folders import by_step
from trainer.pytorch.checkpoints.manager import CheckpointManager
from trainer.pytorch.checkpoints.saves import Saves
from trainer.pytorch.checkpoints.settings import refuse_changed_settings
from trainer.pytorch.data.batches import Batches
from trainer.pytorch.data.damage import UndamagedDataset, refuse_beyond
from trainer.pytorch.data.sampler import IndexSampler
from trainer.pytorch.data.worker_count import worker_count
from trainer.pytorch.distributed import Distributed
from trainer.pytorch.evaluations import Evaluations
from trainer.pytorch.out_of_memory import shortage
from trainer.pytorch.parallel import gradients, random_numbers, state
from trainer.pytorch.parallel.layout import Layout
from trainer.pytorch.reporting.reporter import Reporter, of_evaluation
from trainer.pytorch.result import is_published, publish_result, read_result
from trainer.pytorch.shared_volume import create_folders
from trainer.pytorch.stopwatch import Stopwatch
from trainer.training import non_finite
from trainer.training.digits import DataError, refuse_labels, unknown_labels
from trainer.training.metrics import StepReport

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.pytorch.agreement import Agreed
    from trainer.pytorch.config import TrainConfig
    from trainer.pytorch.data.dataset import DamagedSampleError, Dataset
    from trainer.pytorch.out_of_memory import OutOfMemoryError
    from trainer.training.digits import SplitName
    from trainer.training.signals import StopRequest


class NonFiniteError(RuntimeError):
    """The loss or its gradient is not a finite number; the parameters were not changed. Every rank raises."""


class Outcome(Enum):
    """The outcome of `Trainer.train`."""

    FINISHED = "finished"
    """The model is published, if it is of a kind that can be."""
    STOPPED = "stopped"
    """On request, after saving; the same command continues."""


class Trainer:
    """One rank of a training run. Every rank makes the same calls in the same order."""

    def __init__(self, config: TrainConfig) -> None:
        """Join the other ranks, read the data and build the model.

        Raises:
            SettingsError: settings that do not fit each other, the number of ranks, the GPUs or the data.
            DataError, FolderError: see their modules.
        """
        self.config = config
        self.step = 0
        self._stop: StopRequest | None = None
        self._has_done_a_step = False
        with ExitStack() as stack:
            try:
                self._build(stack)
            except Exception as error:
                short = self._shortage(error)
                if short is None:
                    raise
                raise short from error
            self._close = stack.pop_all()

    def _build(self, stack: ExitStack) -> None:
        config = self.config
        self._folders = config.folders
        flight_recorder.keep_in(self._folders.run)
        self.distributed = distributed = Distributed(config.distributed)
        stack.callback(distributed.close)
        notes = config.runtime.apply(distributed.device, processes_per_node=distributed.local_world_size)
        notes += config.precision.notes(distributed.device, reads_images=config.model.reads_images)
        config.precision.apply(distributed.device, warns=distributed.is_main)
        self._layout = layout = Layout(config.parallel.degrees(distributed.world_size), distributed.device.type)
        samples = self._open_data(stack)
        warnings = config.without_effect(self.total_steps, distributed.world_size)
        config.report.profile.check_length(self.total_steps)
        self._settings = config.settings()
        self._recipe, self._resumes = config.recipe(), distributed.on_main(self._has_checkpoints)
        # the checkpoint has values for all parameters
        self._parallel_model = self._recipe.build(layout, distributed.device, draws=not self._resumes)
        distributed.abort_with(layout.groups())
        self.model = self._parallel_model.module
        warnings += self._take_weights(resumes=self._resumes)
        self.optimizer = config.optimizer.build(self.model.parameters())
        # only now: a run that is refused leaves nothing behind
        create_folders(self._folders, distributed)
        flight_recorder.create_folder()
        self._reporter = Reporter(distributed, config.report, config.reported_run())
        stack.callback(self._reporter.close)
        self.events, self.metrics = self._reporter.events, self._reporter.metrics
        notes += [*self._data_notes, *samples.notes, *self._held_out.notes]
        self._reporter.expect(self.total_steps, [*warnings, *notes])
        self._heartbeat = Heartbeat(self._folders.work, rank=distributed.rank)
        # ranks that compute the same samples together also draw the same random numbers
        config.runtime.seed_rank(layout.data_rank)
        self._checkpoints = CheckpointManager(config.checkpoint, self._folders.checkpoints, distributed, self._settings)
        self._saves = Saves(config.checkpoint, self._checkpoints, distributed, self.metrics, self.events)
        stack.callback(self._saves.close)
        model, held_out = self._parallel_model, self._held_out
        self._evaluations = Evaluations(config, model, held_out, distributed, self._reporter, read=self._read)

    def _has_checkpoints(self) -> bool:
        return self._folders.checkpoints.is_dir() and bool(by_step(self._folders.checkpoints))

    def _take_weights(self, *, resumes: bool) -> list[str]:
        """Begin with the weights of a file, where one is given, and return what to warn of."""
        path = self.config.init_weights
        if path is None:
            return []
        if resumes:
            fix = "Fix: another --run_name to begin with the file"
            return [f"init_weights={path}: the run has checkpoints, and continues from the latest. {fix}"]
        problems = initial_weights.take(path, self.config.model, self.model, strict=self.config.init_weights_strict)
        return [f"init_weights={path}: {each}; the model begins there as without the file" for each in problems]

    def _open_data(self, stack: ExitStack) -> Dataset:
        """Open both splits and return that of training."""
        config, layout = self.config, self._layout
        samples, self._held_out = self._open("train"), self._open("held_out")
        tokens = self._held_out.tokens_per_sample
        self._tokens_per_step = None if tokens is None else tokens * config.data.batch_size
        config.model.refuse_misfit(samples.sample_shape, samples.classes)
        sampler = IndexSampler(
            num_samples=len(samples),
            batch_size=config.data.batch_size,
            rank=layout.data_rank,
            world_size=layout.degrees.data,
            seed=config.runtime.seed,
            microbatches=config.parallel.microbatches,
        )
        self.total_steps = config.total_steps(sampler.steps_per_epoch)
        workers, self._data_notes = worker_count(
            config.data,
            samples.unfiltered,  # a damaged one is reported when a step needs it
            batch_size=sampler.batch_size_per_rank,
            device=self.distributed.device,
            ranks=self.distributed.local_world_size,
        )
        self._read = partial(
            Batches[Any], workers=workers, give_up=self._gives_up_on_batch, report=self._report_damaged
        )
        self.batches: Batches[IndexSampler] = self._read(samples, sampler, device=self.distributed.device)
        stack.callback(self.batches.close)
        return samples

    def _open(self, split: SplitName) -> UndamagedDataset:
        data = self.config.data
        opened = data.open(split, self.config.model.input_shape)
        usable = UndamagedDataset(opened, most=data.most_damaged, report=self._report_damaged)
        return usable.on(self.distributed.device)

    def train(self, stop: StopRequest) -> Outcome:
        """Resume from the latest checkpoint, train to the end and publish the model.

        Returns at once if an earlier start of this run has published it, and early, after saving, when any rank is
        asked to stop.

        Raises:
            NonFiniteError, CheckpointError, ExportError, PeersLostError: see their modules.
        """
        try:
            return self._train(stop)
        except Exception as error:
            # whatever failed then failed for that
            failure = self.distributed.lost(error) or self._shortage(error) or error
            if isinstance(failure, NonFiniteError) and self.distributed.is_main:
                non_finite.remember(self._folders.run)
            self.events.write("failed", step=self.step, error=f"{type(failure).__name__}: {failure}")
            if failure is error:
                raise
            raise failure from error

    def _shortage(self, error: Exception) -> OutOfMemoryError | None:
        """Return the message for an error about memory, with what would help; None for any other."""
        made = vars(self)  # as far as the rank was built
        if "distributed" not in made:
            return None
        return shortage(
            error,
            self.config,
            self.distributed.device,
            (made.get("model"), made.get("optimizer")),
            step=self.step + 1,
            ranks=self.distributed.world_size,
            happens_again=not self._has_done_a_step,
        )

    def _train(self, stop: StopRequest) -> Outcome:
        if self._finished_before():
            return Outcome.FINISHED
        self._stop = stop
        self.distributed.watch(stop, self._heartbeat)
        self._resume()
        first_step = self.step
        self._reporter.begin(step=first_step, non_finite_losses=non_finite.count(self._folders.run))
        if not self._catch_up(stop):
            return self._stopped()
        self.distributed.allow_first_step()
        while self.step < self.total_steps:
            if self.step > first_step:
                self.distributed.allow_step(may_write=self._reporter.writes_around(self.step + 1))
            if self.train_step(stop_requested=stop.requested) or not self._after_step(stop):
                return self._stopped()
        if not self._finish(stop):
            return self._stopped()
        self.metrics.finish(stop_requested=lambda: stop.requested)
        return Outcome.FINISHED

    def train_step(self, *, stop_requested: bool) -> bool:
        """Do one optimizer step, and agree with the other ranks whether to continue.

        Returns:
            Whether some rank had `stop_requested`; the same on every rank. Also without a step where a stop came while
            a rank without others waited for its batch.

        Raises:
            DataError, DataWorkerError: the batch cannot be read.
            NonFiniteError: before the parameters are changed.
            DataError: as well, for targets that are unknown.
            SettingsError: parameters that no step would change.
        """
        begin = time.perf_counter()
        own = Stopwatch(self.distributed.device)
        batch = next(self.batches, None)
        if batch is None:
            return True
        data_wait_seconds = time.perf_counter() - begin
        learning_rate = self.config.optimizer.learning_rate_at(self.step, self.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate

        self.optimizer.zero_grad()
        agreement = Agreement(self.distributed, own, stop_requested=stop_requested)
        self._parallel_model.forward_backward(batch.inputs, batch.targets, agreement.start)
        limit = self.config.optimizer.gradient_clip_norm
        norm = gradients.clip(self.model.parameters(), limit, self._layout, counted=agreement.counted())
        agreed = agreement.wait(norm)
        if agreed.bad_ranks:
            self._refuse_unknown_targets(batch.targets)
        if self.step == 0:
            gradients.refuse_missing(self.model)
            gradients.refuse_unequal(self.model, self._layout)
        self._refuse_non_finite(agreed, batch.inputs)
        self.distributed.raise_if_cut()
        self._saves.before_update()
        self.optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        self.step += 1
        self._has_done_a_step = True
        self._heartbeat.beat(self.step)
        self._reporter.on_step(
            StepReport(
                step=self.step,
                epoch=self.batches.sampler.epoch,
                loss=agreed.loss,
                gradient_norm=agreed.gradient_norm,
                learning_rate=learning_rate,
                step_seconds=time.perf_counter() - begin,
                data_wait_seconds=data_wait_seconds,
                own_seconds=own.seconds(),
                samples=self.config.data.batch_size,
                tokens=self._tokens_per_step,
            )
        )
        return agreed.stopping_ranks > 0

    def evaluate(self, stop: StopRequest) -> dict[str, float] | None:
        """Return how good the model is now, None where some rank is asked to stop; see `Evaluations.evaluate`.

        The best one so far is saved where that is asked for, unless this step is saved anyway.
        """
        self.batches.close()  # its processes have all the cores and the shared memory that there are for reading
        scores = self._evaluations.evaluate(self.step, lambda: stop.requested)
        if scores is not None and not self._is_saved and self._evaluations.is_best(self.step):
            self._saves.at_interval(self.step, self.state_dict)
        return scores

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on; of the parameters and the optimizer's state not copies."""
        return {
            **state.state_dict(self._parallel_model, self.optimizer),
            "progress": {"step": self.step, "sampler": self.batches.sampler.state_dict()},
            "random": random_numbers.states_to_save(self.distributed),
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from a state of the same settings; "random" may be absent. Collective."""
        state.load_state_dict(self._parallel_model, self.optimizer, saved)
        self.step = saved["progress"]["step"]
        self.batches.load_state_dict(saved["progress"]["sampler"])
        if "random" in saved:
            random_numbers.continue_from(saved["random"], self.distributed, self._layout)

    def close(self) -> None:
        """Stop answering scrapes, close the log, leave the other ranks."""
        self._close.close()

    def _finished_before(self) -> bool:
        result = self.distributed.on_main(lambda: read_result(self._folders.result))
        if result is None:
            return False
        refuse_changed_settings(self._folders.result, result["settings"], self._settings)
        self.events.write("already_finished", step=result["step"], version=result["version"])
        return True

    def _resume(self) -> None:
        latest = self._checkpoints.find_latest()
        if latest is None:
            if self._resumes:  # there were checkpoints, all of them damaged
                self._recipe.draw(self.model, self.distributed.device)
                self._take_weights(resumes=False)
            self.events.write("started", step=0, total_steps=self.total_steps, world_size=self.distributed.world_size)
            return
        self.distributed.allow_checkpoint()
        saved = self.state_dict()
        del saved["random"]
        names = self._checkpoints.names(latest)
        saved |= random_numbers.to_load(self.distributed, self._layout, names, saved_by_ranks=latest.world_size)
        self._checkpoints.load(latest, saved)
        self.load_state_dict(saved)
        self.metrics.on_checkpoint_found(latest.saved_at)
        ranks = {"world_size": self.distributed.world_size, "saved_by_ranks": latest.world_size}
        self.events.write("resumed", step=self.step, total_steps=self.total_steps, **ranks)

    def _report_damaged(self, sample: DamagedSampleError) -> None:
        """Report a sample that is left out, unless some rank has done so.

        Raises:
            DataError: too many are.
        """
        most = self.config.data.most_damaged
        messages = self.distributed.remember("damaged samples", str(sample))
        if messages is not None:
            refuse_beyond(most, messages)
            self._reporter.on_damaged_sample(self.step, str(sample), left_out=len(messages), most=most)

    def _gives_up_on_batch(self, waited_seconds: float) -> bool:
        """Return whether to stop without the batch that data workers owe: other ranks would wait for it forever.

        Raises:
            PeersLostError: the other ranks no longer wait.
            DataError: the wait was too long.
        """
        self.distributed.raise_if_cut()
        limit = self.distributed.timeout_seconds
        if waited_seconds > limit:
            raise DataError(
                f"data_dir={self.config.data.data_dir}: no batch within {limit} s: the volume or a data worker hangs. "
                "Fix: look at that volume; if reading takes so long, a higher --train_timeout_seconds (for the first "
                "batch --init_timeout_seconds)"
            )
        return self.distributed.world_size == 1 and self._stop is not None and self._stop.requested

    def _refuse_unknown_targets(self, targets: Tensor) -> None:
        """Name what made the loss of some rank not a number if it was its targets; collective."""
        self.distributed.raise_if_cut()
        classes, not_counted = self._held_out.classes, self.config.data.task.not_counted
        unknown = self.distributed.gather(targets[unknown_labels(targets, classes, not_counted)][:1].cpu())
        refuse_labels(torch.cat(unknown), classes, not_counted=not_counted, first=None)

    def _refuse_non_finite(self, agreed: Agreed, inputs: Tensor) -> None:
        if not agreed.bad_ranks and math.isfinite(agreed.gradient_norm):
            return
        raise NonFiniteError(
            f"step {self.step + 1}: loss {agreed.own_loss} on rank {self.distributed.rank} and not finite on "
            f"{agreed.bad_ranks} of {self.distributed.world_size} ranks, gradient norm {agreed.gradient_norm} (must be "
            "finite); parameters unchanged. "
            f"Fix: a lower --learning_rate (now {self.config.optimizer.learning_rate}), or look at the samples of "
            f"such a rank, here {self.batches.suspects(inputs)}"
        )

    def _after_step(self, stop: StopRequest) -> bool:
        """Do what is due between two steps; return whether to continue."""
        self._saves.look()
        if self._is_saved and self.step < self.total_steps:
            self._saves.at_interval(self.step, self.state_dict)
        return not self._is_evaluated or self.evaluate(stop) is not None

    def _catch_up(self, stop: StopRequest) -> bool:
        """Do the evaluation that an earlier process of the run had no time for; return whether to continue."""
        is_missing = self._evaluations.is_missing(self.step)
        return not (self._is_evaluated and is_missing) or self.evaluate(stop) is not None

    def _stopped(self) -> Outcome:
        self._saves.now(self.step, self.state_dict)
        self.events.write("stopped", step=self.step)
        return Outcome.STOPPED

    @property
    def _is_saved(self) -> bool:
        """Whether a checkpoint is due after this step."""
        return self.step == self.total_steps or self.step % self.config.checkpoint.checkpoint_interval_steps == 0

    @property
    def _is_evaluated(self) -> bool:
        """Whether an evaluation is due after this step, besides that of the end."""
        interval = self.config.evaluation_interval_steps or self.batches.sampler.steps_per_epoch
        return 0 < self.step < self.total_steps and self.step % interval == 0

    def _finish(self, stop: StopRequest) -> bool:
        """Save, evaluate and publish the model; return whether that was done before a stop."""
        self._saves.now(self.step, self.state_dict)
        scores = self.evaluate(stop)
        if scores is None:
            return False
        # a language model may be larger than the memory of a host, and nobody wants it whole
        whole = state.whole_model(self._parallel_model) if is_published(self.config) else None
        self.distributed.finishing()
        run = (self.config, self._settings, whole, self._held_out)
        published = self.distributed.on_main(lambda: publish_result(*run, step=self.step, scores=scores))
        self.events.write("finished", step=self.step, **of_evaluation(scores), **published)
        return True
