"""The persistent state of a TensorFlow run: checkpoints, the exported model, the result."""

from __future__ import annotations

import logging
import math
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.common.files import read_json, write_json_atomically
from trainer.common.validation import changed_settings
from trainer.tf.model import Momentum, Network, accuracy
from trainer.training import cifar, non_finite
from trainer.training.events import EventLog, log_to_stderr

if TYPE_CHECKING:
    from trainer.tf.config import RunConfig

SAVED_MODEL_FOLDER = "saved_model"
SETTINGS_FILE = "settings.json"
_CHECKPOINT_PREFIX = "ckpt"


class RunError(Exception):
    """Training cannot begin or continue; the message says why and what to do."""


@dataclass(kw_only=True)
class State:
    """The content of a checkpoint: the weights, their velocities, the number of updates so far."""

    network: Network
    optimizer: Momentum
    step: Any

    @classmethod
    def create(cls, tf: Any, config: RunConfig, strategy: Any = None) -> State:  # noqa: ANN401
        """Create it again; within the strategy's scope when there is one."""
        network = Network(tf, seed=config.seed)
        optimizer = Momentum(
            tf,
            network.variables,
            strategy=strategy,
            learning_rate=config.learning_rate,
            momentum=config.momentum,
        )
        step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            name="step",
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        return cls(network=network, optimizer=optimizer, step=step)

    @property
    def current_step(self) -> int:
        """The number of updates so far."""
        return int(self.step.read_value())

    def checkpoint(self, tf: Any) -> Any:  # noqa: ANN401
        """Return the checkpoint that TensorFlow saves and restores."""
        return tf.train.Checkpoint(network=self.network.module, optimizer=self.optimizer.module, step=self.step)


class Checkpoints:
    """Saves and restores the state of one run, numbered by the step."""

    def __init__(self, tf: Any, config: RunConfig, state: State, *, io_device: str | None = None) -> None:  # noqa: ANN401
        """Manage the checkpoints of a run.

        Args:
            tf: TensorFlow.
            config: the run.
            state: what is saved.
            io_device: the only device that reads and writes files; without it each variable's own task does.
        """
        self._state = state
        self._prefix = config.folders.checkpoints / _CHECKPOINT_PREFIX
        self._options = tf.train.CheckpointOptions(experimental_io_device=io_device)
        self._checkpoint = state.checkpoint(tf)
        self._manager = tf.train.CheckpointManager(
            self._checkpoint,
            str(config.folders.checkpoints),
            max_to_keep=config.keep_latest_k,
            checkpoint_name=_CHECKPOINT_PREFIX,
        )

    def latest_step(self) -> int:
        """Return the step of the latest checkpoint; 0 where there is none."""
        latest = self._manager.latest_checkpoint
        return step_of(latest) if latest else 0

    def latest_time(self) -> float | None:
        """Return when the latest checkpoint was saved, Unix time in seconds; None where there is none."""
        latest = self._manager.latest_checkpoint
        return Path(f"{latest}.index").stat().st_mtime if latest else None

    def save(self) -> int:
        """Save the state, unless its step is saved already; return the step."""
        step = self._state.current_step
        if step != self.latest_step():
            self._manager.save(checkpoint_number=step, options=self._options)
        return step

    def restore(self, step: int) -> None:
        """Read the checkpoint of a step into the state; nothing for step 0."""
        if step:
            self._checkpoint.restore(f"{self._prefix}-{step}", options=self._options).assert_consumed()


def step_of(checkpoint: str) -> int:
    """Return the step that a checkpoint's path ends with."""
    return int(checkpoint.rpartition("-")[2])


def begin(config: RunConfig, *, shards: int) -> None:
    """Make the run's folders and refuse what cannot work.

    Raises:
        RunError: the folders cannot be written, the batch cannot be shared, or the run has other settings.
        DataError: the data set cannot be used.
    """
    records = sum(len(cifar.read_records(path)) for path in cifar.files_of(config.data_dir, "train"))
    if config.batch_size % shards:
        multiple = min(-(-config.batch_size // shards), records // shards) * shards
        fix = f"Fix: a multiple of {shards}, for example {multiple}" if multiple else "Fix: fewer workers"
        raise RunError(f"batch_size={config.batch_size}: {shards} workers cannot share it evenly. {fix}")
    if config.batch_size > records:
        limit = f"must be at most {records}, the samples of one epoch"
        raise RunError(f"batch_size={config.batch_size}: {limit}. Fix: --batch_size {records // shards * shards}")
    folders = config.folders
    settings = config.settings()
    try:
        folders.checkpoints.mkdir(parents=True, exist_ok=True)
        saved = read_json(folders.run / SETTINGS_FILE)
        if saved is None:
            write_json_atomically(folders.run / SETTINGS_FILE, settings)
            return
    except OSError as error:
        fix = "Fix: mount the volume writable for this user"
        raise RunError(f"output_dir={config.output_dir}: cannot be written: {error}. {fix}") from error
    changed = changed_settings(saved, settings)
    if changed:
        fix = "Fix: the former values, or another --run_name"
        raise RunError(f"{folders.run} belongs to a run with other settings: {changed}. {fix}")


def show_messages() -> None:
    """Show messages on standard error, once: TensorFlow gives the root logger a handler of its own."""
    log_to_stderr()
    logging.getLogger("trainer").propagate = False


def open_log(config: RunConfig, rank: int) -> EventLog:
    """Return the event log of a task.

    Raises:
        RunError: it cannot be written.
    """
    try:
        config.folders.logs.mkdir(parents=True, exist_ok=True)
        return EventLog(config.folders.logs, job=config.run_name, rank=rank)
    except OSError as error:
        fix = "Fix: mount the volume writable for this user, or another --log_dir"
        raise RunError(f"{config.folders.logs}: cannot be written: {error}. {fix}") from error


def require_finite(loss: float, step: int, *, remember_in: Path | None) -> None:
    """Refuse to save what cannot be trained on.

    Args:
        loss: mean over the steps since the last save.
        step: steps done.
        remember_in: the run's folder, on the one task that counts such losses.

    Raises:
        RunError: the loss is not finite.
    """
    if not math.isfinite(loss):
        if remember_in is not None:
            non_finite.remember(remember_in)
        raise RunError(f"the loss is {loss} at step {step}. Fix: a smaller --learning_rate, or look for damaged data")


def finish(tf: Any, config: RunConfig, state: State, events: EventLog, **facts: Any) -> float:  # noqa: ANN401
    """Evaluate the final state, export it, and write the result, whose presence ends every other task.

    Returns:
        The accuracy on the test images, 0 to 1.
    """
    # a copy in this process: with parameter servers every batch would fetch all weights again
    local = Network(tf, seed=config.seed)
    for variable, source in zip(local.variables, state.network.variables, strict=True):
        variable.assign(source.read_value())
    step = state.current_step
    result = accuracy(tf, local, cifar.load_records(config.data_dir, "test"))
    events.write("evaluated", step=step, accuracy=result)
    _export(tf, local, config.folders.run / SAVED_MODEL_FOLDER)
    write_json_atomically(config.folders.result, {"accuracy": result, "steps": step, **facts})
    events.write("finished", step=step, accuracy=result)
    return result


def _export(tf: Any, network: Network, target: Path) -> None:  # noqa: ANN401
    """Write a SavedModel that appears whole, by one rename; there may be one of an attempt killed before its result."""
    staging = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    signature = tf.TensorSpec((None, 32, 32, 3), tf.float32, name="images")

    def serve(images: Any) -> Any:  # noqa: ANN401
        return {"logits": network.logits(images)}

    network.module.serve = tf.function(serve, input_signature=[signature])
    tf.saved_model.save(network.module, str(staging), signatures={"serving_default": network.module.serve})
    shutil.rmtree(target, ignore_errors=True)
    staging.rename(target)
