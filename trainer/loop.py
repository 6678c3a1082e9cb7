"""The training loop."""

from __future__ import annotations

import copy
import math
import time
from contextlib import ExitStack
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from trainer import digits, non_finite
from trainer.checkpoint import CheckpointError, CheckpointManager, refuse_changed_settings
from trainer.data import DigitsBatches, IndexSampler, load_samples
from trainer.distributed import Distributed
from trainer.evaluation import accuracy
from trainer.events import EventLog, Heartbeat
from trainer.export import TensorSpec, TrainedModel, publish
from trainer.files import read_json, write_json_atomically
from trainer.metrics import StepReport, TrainingMetrics
from trainer.runtime import random_state, set_random_state
from trainer.stopwatch import Stopwatch

if TYPE_CHECKING:
    from trainer.config import TrainConfig
    from trainer.signals import StopRequest


class NonFiniteError(RuntimeError):
    """The loss or its gradient is not a finite number; the parameters were not changed. Every rank raises."""


class Outcome(Enum):
    """How `Trainer.train` ended."""

    FINISHED = "finished"
    """The model is published."""
    STOPPED = "stopped"
    """On request, after saving; the same command continues."""


class Trainer:
    """One rank of a training run. Every rank makes the same calls in the same order."""

    def __init__(self, config: TrainConfig) -> None:
        """Join the other ranks, read the data and build the model.

        Raises:
            ValueError: settings that do not fit the number of ranks, the GPUs or the data.
            DataError, FolderError: see their modules.
        """
        self.config = config
        self.step = 0
        with ExitStack() as stack:
            self._build(stack)
            self._close = stack.pop_all()

    def _build(self, stack: ExitStack) -> None:
        config = self.config
        self.distributed = distributed = Distributed(config.distributed)
        stack.callback(distributed.close)
        config.runtime.apply(processes_per_node=distributed.local_world_size)
        self._folders = config.folders
        self._folders.create(distributed)
        self.events = EventLog(self._folders.logs, job=config.run_name, rank=distributed.rank)
        stack.callback(self.events.close)
        self._heartbeat = Heartbeat(self._folders.work, rank=distributed.rank)
        self.metrics = TrainingMetrics(run=config.run_name, rank=distributed.rank)
        stack.callback(self.metrics.close)
        self.metrics.serve(config.metrics, local_rank=distributed.local_rank)

        samples = load_samples(config.data.data_dir, "train", distributed.device)
        self._held_out = load_samples(config.data.data_dir, "held_out", distributed.device)
        sampler = IndexSampler(
            num_samples=len(samples.labels),
            batch_size=config.data.batch_size,
            rank=distributed.rank,
            world_size=distributed.world_size,
            seed=config.runtime.seed,
        )
        self.batches = DigitsBatches(samples, sampler)
        self.total_steps = config.epochs * sampler.steps_per_epoch
        self.model = config.model.build().to(distributed.device)
        self._parallel_model = DistributedDataParallel(self.model, gradient_as_bucket_view=True)
        self.optimizer = config.optimizer.build(self.model.parameters())
        config.runtime.seed_rank(distributed.rank)
        self._settings = config.settings()
        self._checkpoints = CheckpointManager(config.checkpoint, self._folders.checkpoints, distributed, self._settings)

    def train(self, stop: StopRequest) -> Outcome:
        """Resume from the newest checkpoint, train to the end and publish the model.

        Returns at once if an earlier start of this run has published it, and early, after saving, when any rank is
        asked to stop.

        Raises:
            NonFiniteError, CheckpointError, ExportError: see their modules.
        """
        try:
            return self._train(stop)
        except Exception as error:
            if isinstance(error, NonFiniteError) and self.distributed.is_main:
                non_finite.remember(self._folders.run)
            self.events.write("failed", step=self.step, error=f"{type(error).__name__}: {error}")
            raise

    def _train(self, stop: StopRequest) -> Outcome:
        if self._finished_before():
            return Outcome.FINISHED
        self._resume()
        first_step = self.step
        met = non_finite.count(self._folders.run)
        self.metrics.on_start(step=first_step, total_steps=self.total_steps, non_finite_losses=met)
        while self.step < self.total_steps:
            stopping = self.train_step(stop_requested=stop.requested)
            if self.step == first_step + 1:
                self.distributed.use_train_timeout()
            if stopping:
                self._save()
                self.events.write("stopped", step=self.step)
                return Outcome.STOPPED
            self._after_step()
        self._finish()
        self.metrics.finish(stop_requested=lambda: stop.requested)
        return Outcome.FINISHED

    def train_step(self, *, stop_requested: bool) -> bool:
        """Do one optimizer step, and agree with the other ranks whether to go on.

        Returns:
            Whether some rank had `stop_requested`; the same on every rank.

        Raises:
            NonFiniteError: before the parameters are changed.
        """
        begin = time.perf_counter()
        own = Stopwatch(self.distributed.device)
        batch = next(self.batches)
        data_wait_seconds = time.perf_counter() - begin
        learning_rate = self.config.optimizer.learning_rate_at(self.step, self.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate

        self.optimizer.zero_grad()
        loss = cross_entropy(self._parallel_model(batch.images), batch.labels)
        # started before the backward pass, so that it travels while gradients are computed
        health = torch.stack((loss.detach(), ~loss.detach().isfinite(), loss.new_tensor(stop_requested)))
        agreed = self.distributed.start_sum(health)
        own.stop()
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        agreed.wait()
        loss_sum, bad_ranks, stopping_ranks = cast("list[float]", health.tolist())  # pyright: ignore[reportUnknownMemberType]
        gradient_norm = self._clip_gradient(loss.item(), bad_ranks=int(bad_ranks))
        self.optimizer.step()  # pyright: ignore[reportUnknownMemberType]
        self.step += 1
        self._report(
            StepReport(
                step=self.step,
                epoch=self.batches.sampler.epoch,
                loss=loss_sum / self.distributed.world_size,
                gradient_norm=gradient_norm,
                learning_rate=learning_rate,
                step_seconds=time.perf_counter() - begin,
                data_wait_seconds=data_wait_seconds,
                own_seconds=own.seconds(),
                samples=self.config.data.batch_size,
            )
        )
        return stopping_ranks > 0

    def evaluate(self) -> float:
        """Return the share of held-out samples classified correctly, 0 to 1; the same on every rank."""
        result = accuracy(self.model, self._held_out, self.distributed)
        self.metrics.on_test_accuracy(result)
        self.events.write("evaluated", step=self.step, accuracy=result)
        return result

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on; tensors are those in use, not copies."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {
            "model": model,
            "optimizer": optimizer,
            "progress": {"step": self.step, "sampler": self.batches.sampler.state_dict()},
            # one entry per rank: equal names would be stored once and give every rank the same random numbers
            "random": {f"rank_{self.distributed.rank:05d}": random_state(self.distributed.device)},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state of the same settings; "random" may be absent."""
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.step = state["progress"]["step"]
        self.batches.sampler.load_state_dict(state["progress"]["sampler"])
        if "random" in state:
            set_random_state(state["random"][f"rank_{self.distributed.rank:05d}"], self.distributed.device)

    def close(self) -> None:
        """Stop answering scrapes, close the log, leave the other ranks."""
        self._close.close()

    def _finished_before(self) -> bool:
        result = self.distributed.on_main(lambda: read_json(self._folders.result))
        if result is None:
            return False
        refuse_changed_settings(self._folders.result, result["settings"], self._settings)
        self.events.write("already_finished", step=result["step"], version=result["version"])
        return True

    def _resume(self) -> None:
        found = self._checkpoints.find_latest()
        if found is None:
            self.events.write("started", step=0, total_steps=self.total_steps, world_size=self.distributed.world_size)
            return
        state = self.state_dict()
        if found.world_size != self.distributed.world_size:
            # other ranks than those that saved: the samples continue exactly, dropout does not
            del state["random"]
        self._checkpoints.load(found, state)
        self.load_state_dict(state)
        self.metrics.on_checkpoint_found(found.saved_at)
        self.events.write(
            "resumed",
            step=self.step,
            total_steps=self.total_steps,
            world_size=self.distributed.world_size,
            saved_by_ranks=found.world_size,
        )

    def _clip_gradient(self, loss: float, *, bad_ranks: int) -> float:
        """Scale the gradient down to the configured norm and return the norm it had."""
        limit = self.config.optimizer.gradient_clip_norm
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit).item()
        if bad_ranks or not math.isfinite(norm):
            raise NonFiniteError(
                f"step {self.step + 1}: loss {loss} on rank {self.distributed.rank} and not finite on {bad_ranks} of "
                f"{self.distributed.world_size} ranks, gradient norm {norm} (must be finite); parameters unchanged. "
                f"Fix: a lower --learning_rate (now {self.config.optimizer.learning_rate}), or look for such samples"
            )
        return norm

    def _report(self, report: StepReport) -> None:
        self.metrics.on_step(report)
        self._heartbeat.beat()
        if report.step % self.config.log_interval_steps == 0 or report.step == self.total_steps:
            fields = {name: getattr(report, name) for name in StepReport.__dataclass_fields__ if name != "step"}
            self.events.write("step", step=report.step, **fields)

    def _after_step(self) -> None:
        if self.step % self.config.checkpoint.checkpoint_interval_steps == 0 and self.step < self.total_steps:
            self._save_or_go_on()
        if self.step % self.batches.sampler.steps_per_epoch == 0 and self.step < self.total_steps:
            self.evaluate()

    def _save(self) -> None:
        seconds = self._checkpoints.save(self.step, self.state_dict())
        self.metrics.on_checkpoint(seconds)
        self.events.write("checkpoint_saved", step=self.step, seconds=seconds)

    def _save_or_go_on(self) -> None:
        """Save; a full disk in the middle of a run must not cost the run, there may be space at the next interval."""
        try:
            self._save()
        except CheckpointError as error:
            self.metrics.on_checkpoint_failure()
            self.events.write("checkpoint_failed", step=self.step, error=str(error))

    def _finish(self) -> None:
        self._save()
        test_accuracy = self.evaluate()
        version = self.distributed.on_main(lambda: self._publish(test_accuracy))
        self.events.write("finished", step=self.step, accuracy=test_accuracy, version=version)

    def _publish(self, test_accuracy: float) -> int:
        trained = TrainedModel(
            module=copy.deepcopy(self.model).cpu().eval(),
            inputs=TensorSpec(name="image", shape=digits.IMAGE_SHAPE),
            outputs=TensorSpec(name="logits", shape=(digits.NUM_CLASSES,)),
            samples=self._held_out.images.cpu(),
            run_name=self.config.run_name,
            step=self.step,
            accuracy=test_accuracy,
        )
        version = publish(self._folders.models, self.config.export, trained)
        write_json_atomically(
            self._folders.result,
            {
                "model_name": self.config.export.model_name,
                "version": version,
                "step": self.step,
                "accuracy": test_accuracy,
                "settings": self._settings,
            },
        )
        return version
