"""Runs of Hugging Face's Trainer, Lightning, Accelerate and torchtitan on the platform; in every job's pods by itself.

    athanor = huggingface_callback()     # or lightning_callback()

What each one gives: lines and metrics for `athanor watch` and the dashboards, the heartbeat, a checkpoint and status
143 when the pod is asked to stop, and the latest valid checkpoint to continue from. A framework is imported when its
function is called, and only the standard library of Python 3.8 and later besides.
"""
# ruff: noqa: ANN401 - frameworks have the types, and need not be there

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import athanor_checkpoints as checkpoints
import athanor_progress as progress
import athanor_ranks as ranks
from athanor_checkpoints import Batches
from athanor_run import Watched, checkpoint_dir, hyperparameters, saved

__all__ = ["Batches", "accelerate_tracker", "huggingface_callback", "lightning_callback", "torchtitan_hook"]

_OUR_NAMES = {
    "grad_norm": "gradient_norm",
    "eval_loss": "test_loss",
    "eval_accuracy": "test_accuracy",
    "loss_metrics_global_avg_loss": "loss",
    "validation_metrics_loss": "test_loss",
}
"""What the dashboards call numbers for which frameworks have names of their own."""
_MOST_NUMBERS = 60
"""Different ones in a run: a framework that logs more must not end it."""
_LIGHTNING_FILE = "lightning.ckpt"


class _Numbers:
    """What a framework logs, as `report` takes it."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def of(self, logged: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers among the values, by names of letters, digits and underscores."""
        numbers: dict[str, float] = {}
        for name, value in logged.items():
            plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:64]
            plain = _OUR_NAMES.get(plain, plain)
            number = _number(value)
            if number is None or plain in {"", "step", "total_steps"} or plain[0].isdigit():
                continue
            if plain in self._known or len(self._known) < _MOST_NUMBERS:
                self._known.add(plain)
                numbers[plain] = number
        return numbers


def _number(value: Any) -> float | None:
    if isinstance(value, (str, bytes, bool)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def huggingface_callback(*, step_seconds: float = 600) -> Any:
    """Return a callback for `transformers.Trainer`, and for trainers derived from it, such as those of TRL.

        athanor = huggingface_callback()
        trainer = Trainer(..., args=TrainingArguments(output_dir=athanor.folder, ...), callbacks=[athanor])
        trainer.train(resume_from_checkpoint=athanor.latest())

    When checkpoints are saved is the Trainer's business (`save_steps`), and so is which of them stay.

    Args:
        step_seconds: After which a step counts as stuck, where the job has a liveness probe.
    """
    base = importlib.import_module("transformers").TrainerCallback
    return type("AthanorCallback", (_HuggingFace, base), {})(step_seconds)


class _HuggingFace:
    """Source: transformers 5.24, trainer.py and trainer_callback.py."""

    def __init__(self, step_seconds: float) -> None:
        self.folder = str(checkpoint_dir())
        self._watched, self._numbers = Watched(step_seconds=step_seconds), _Numbers()
        self._is_stopping = False
        self._resumed: Path | None = None
        self._flops = (0, 0.0)

    def latest(self) -> str | None:
        """Return the folder of the latest valid checkpoint; None without one."""
        self._resumed = checkpoints.Checkpoints(Path(self.folder)).latest("checkpoint-*")
        return None if self._resumed is None else str(self._resumed)

    def on_init_end(self, args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self.folder = args.output_dir
        if args.save_total_limit == 1:
            limit = "the Trainer removes the only checkpoint before the next one is complete"
            raise ValueError(f"save_total_limit=1: {limit}. Fix: 2 or more")

    def on_train_begin(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        defaults = {field.name: field.default for field in dataclasses.fields(args)}
        values = {name: getattr(getattr(args, name), "value", getattr(args, name)) for name in defaults}
        hyperparameters({name: value for name, value in values.items() if _is_chosen(value, defaults[name])})
        self._flops = (state.global_step, state.total_flos)
        self._watched.begin(state.global_step, state.max_steps, resumed=self._resumed)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        stop, _save = self._watched.step_done(state.global_step)
        if stop:
            self._is_stopping = True
            control.should_save = control.should_log = control.should_training_stop = True
            control.should_evaluate = False
        self._expect(args, state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._expect(args, state, control)

    def _expect(self, args: Any, state: Any, control: Any) -> None:
        if control.should_save:
            # it may be there already, of the same step
            checkpoints.invalidate(Path(args.output_dir, f"checkpoint-{state.global_step}"))
        if control.should_save or control.should_evaluate:
            self._watched.expect_slow("a checkpoint or an evaluation")

    def on_prediction_step(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._watched.expect_slow("a checkpoint or an evaluation")

    def on_save(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        checkpoints.complete(Path(args.output_dir, f"checkpoint-{state.global_step}"), state.global_step)
        saved()
        if self._is_stopping:
            self._watched.stop()
        self._watched.expect_step()

    def on_evaluate(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._watched.expect_step()

    def on_log(self, args: Any, state: Any, _control: Any, logs: Mapping[str, Any], **_: Any) -> None:
        steps, flops = state.global_step - self._flops[0], state.total_flos - self._flops[1]
        self._flops = (state.global_step, state.total_flos)
        self._watched.report(
            state.global_step,
            self._numbers.of(logs),
            samples=state.train_batch_size * args.gradient_accumulation_steps * args.world_size,
            flops=flops / steps if steps > 0 and flops > 0 else None,
        )

    def on_train_end(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._watched.end()


def _is_chosen(value: object, default: object) -> bool:
    """Return whether an argument of the Trainer is one that somebody chose, and short enough to be shown."""
    return isinstance(value, (bool, int, float, str)) and value != default


def lightning_callback(*, every_seconds: float = 600, keep: int = 2, step_seconds: float = 600) -> Any:
    """Return a callback for `lightning.pytorch.Trainer`, or for that of `pytorch_lightning` if only this is imported.

        athanor = lightning_callback()
        trainer = Trainer(..., callbacks=[athanor])
        trainer.fit(model, Batches(loader), ckpt_path=athanor.latest())

    `Batches` lets a restart in the middle of an epoch continue with the next batch; without it, Lightning begins the
    epoch's data again.

    Args:
        every_seconds: Time between two checkpoints, which are those of `Trainer.save_checkpoint`.
        keep: How many checkpoints are kept.
        step_seconds: After which a step counts as stuck, where the job has a liveness probe.
    """
    old = "pytorch_lightning" in sys.modules and "lightning" not in sys.modules
    base = importlib.import_module("pytorch_lightning" if old else "lightning.pytorch").Callback
    store = checkpoints.Checkpoints(checkpoint_dir(), keep=keep)
    return type("AthanorCallback", (_Lightning, base), {})(store, every_seconds, step_seconds)


class _Lightning:
    """Source: lightning 2.6, pytorch/loops and pytorch/callbacks/callback.py."""

    def __init__(self, store: checkpoints.Checkpoints, every_seconds: float, step_seconds: float) -> None:
        self._checkpoints, self._every_seconds = store, every_seconds
        self._watched, self._numbers = Watched(step_seconds=step_seconds), _Numbers()
        self._saved_step, self._saved_at = -1, time.monotonic()
        self._resumed: Path | None = None

    def latest(self) -> str | None:
        """Return the file of the latest valid checkpoint, for `ckpt_path`; None without one."""
        self._resumed = self._checkpoints.latest()
        return None if self._resumed is None else str(self._resumed / _LIGHTNING_FILE)

    def on_train_start(self, trainer: Any, module: Any) -> None:
        hyperparameters(dict(getattr(module, "hparams", {})))
        if self._resumed is not None and str(trainer.ckpt_path or "").startswith(str(self._resumed)):
            checkpoints.restore_state(self._resumed)
        self._saved_step, self._saved_at = trainer.global_step, time.monotonic()
        # after Lightning's own handlers, which exchange messages with other ranks inside of a handler
        self._watched.begin(trainer.global_step, trainer.estimated_stepping_batches, resumed=self._resumed)

    def on_train_batch_end(self, trainer: Any, _module: Any, outputs: Any, batch: Any, _batch_idx: int) -> None:
        step, before = trainer.global_step, self._watched.step
        is_old = time.monotonic() - self._saved_at >= self._every_seconds
        stop, due = self._watched.step_done(step, save_due=is_old)
        if step != before and (stop or step % trainer.log_every_n_steps == 0):
            self._report(trainer, outputs, batch)
        if stop or due:
            self._save(trainer)
        if stop:
            self._watched.stop()

    def _report(self, trainer: Any, outputs: Any, batch: Any) -> None:
        loss = cast("Mapping[str, Any]", outputs).get("loss") if isinstance(outputs, Mapping) else outputs
        groups = [group for optimizer in trainer.optimizers for group in optimizer.param_groups]
        rates = {"learning_rate": groups[0]["lr"]} if groups else {}
        samples = _batch_size(batch)
        self._watched.report(
            trainer.global_step,
            self._numbers.of({"loss": loss, **rates, **trainer.callback_metrics}),
            samples=None if samples is None else samples * trainer.world_size * trainer.accumulate_grad_batches,
        )

    def on_validation_start(self, trainer: Any, _module: Any) -> None:
        if not trainer.sanity_checking:
            self._watched.expect_slow("an evaluation")

    def on_validation_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        self.on_validation_start(trainer, None)

    def on_validation_end(self, trainer: Any, _module: Any) -> None:
        if not trainer.sanity_checking:
            self._watched.report(trainer.global_step, self._numbers.of(trainer.callback_metrics))
            self._watched.expect_step()

    def on_train_end(self, trainer: Any, _module: Any) -> None:
        self._save(trainer)
        self._watched.end()

    def on_exception(self, _trainer: Any, _module: Any, _exception: BaseException) -> None:
        self._watched.end()

    def _save(self, trainer: Any) -> None:
        if self._saved_step == trainer.global_step:
            return
        self._watched.expect_slow("a checkpoint")
        self._checkpoints.save(
            trainer.global_step, lambda folder: trainer.save_checkpoint(folder / _LIGHTNING_FILE), every_rank=True
        )
        saved()
        self._saved_step, self._saved_at = trainer.global_step, time.monotonic()
        self._watched.expect_step()


def _batch_size(batch: Any) -> int | None:
    """Return the samples of a batch: the first dimension of its first tensor; None without one."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if isinstance(batch, Mapping):
        return _batch_size(list(cast("Mapping[str, Any]", batch).values()))
    parts = cast("list[Any]", batch) if isinstance(batch, (list, tuple)) else []
    return next((size for size in map(_batch_size, parts) if size is not None), None)


def accelerate_tracker() -> Any:
    """Return a tracker for `accelerate.Accelerator`; `athanor_run.Training` does the rest, as for any loop.

        accelerator = Accelerator(log_with=accelerate_tracker())
        with Training(1000, save=accelerator.save_state, load=accelerator.load_state, every_rank=True) as run:
            for batch in run.batches(loader):

    `accelerator.log(values, step=...)` counts steps as they are done: 1 after the first.
    """
    base = importlib.import_module("accelerate.tracking").GeneralTracker
    return type("AthanorTracker", (_Accelerate, base), {})()


class _Accelerate:
    """Source: accelerate 1.15, tracking.py."""

    name = "athanor"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self) -> None:
        super().__init__()
        self._numbers = _Numbers()

    @property
    def tracker(self) -> None:
        """There is no object behind it."""

    def store_init_configuration(self, values: Mapping[str, object]) -> None:
        hyperparameters(values)

    def log(self, values: Mapping[str, Any], step: int | None = None, **_: Any) -> None:
        if step is not None:
            progress.report(step, None, **self._numbers.of(values))


def torchtitan_hook(trainer: Any, *, step_seconds: float = 600) -> None:
    """Add the platform to a trainer of torchtitan, between its creation and `trainer.train()`.

        trainer = config.build()
        torchtitan_hook(trainer)
        trainer.train()

    torchtitan continues from its own latest checkpoint, which it recognises by the metadata that are written last; its
    folder (`checkpoint.folder` below `dump_folder`) should be below `checkpoint_dir()`.

    Args:
        trainer: With checkpoints enabled; a pod that is asked to stop saves one in addition to those of its interval.
        step_seconds: After which a step counts as stuck, where the job has a liveness probe.
    """
    hook = _Torchtitan(trainer, Watched(step_seconds=step_seconds))
    trainer.checkpointer.save = hook.save
    trainer.checkpointer.load = hook.load
    add_logger = getattr(trainer.metrics_processor.logger, "add_logger", None)
    if add_logger is not None:  # a rank that logs nothing has a logger without others
        add_logger(hook)


class _Torchtitan:
    """Source: torchtitan 0.3, trainer.py, components/metrics.py (`BaseLogger`) and components/checkpointer."""

    def __init__(self, trainer: Any, watched: Watched) -> None:
        self._trainer, self._watched, self._numbers = trainer, watched, _Numbers()
        self._save, self._load = trainer.checkpointer.save, trainer.checkpointer.load

    def load(self, step: int = -1) -> Any:
        loaded = self._load(step=step)
        hyperparameters(self._trainer.config.to_dict())
        self._watched.begin(self._trainer.step, self._trainer.config.training.steps)
        return loaded

    def save(self, curr_step: int, last_step: bool = False) -> Any:  # noqa: FBT001, FBT002 - torchtitan's signature
        """Do what the checkpointer does after each step, and save whatever its interval says if a rank must stop."""
        stop, _save = self._watched.step_done(curr_step)
        self._watched.expect_slow("a checkpoint")
        checkpointer = self._trainer.checkpointer
        if stop and not last_step:
            checkpointer.interval, interval = 1, checkpointer.interval
            self._save(curr_step, last_step=False)
            checkpointer.interval = interval
            checkpointer.maybe_wait_for_saving()
            self._trainer.close()
            self._watched.stop()
        is_saved = self._save(curr_step, last_step=last_step)
        if is_saved:
            saved()
        if last_step:
            self._watched.end()
        self._watched.expect_step()
        return is_saved

    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        numbers = self._numbers.of(metrics)
        tokens_of_a_rank, mfu = numbers.pop("throughput_tps", None), numbers.pop("mfu", None)
        if tokens_of_a_rank is not None:
            numbers["tokens_per_second"] = tokens_of_a_rank * ranks.world_size()
        if mfu is not None:
            numbers["mfu"] = mfu / 100  # torchtitan's is in percent
        self._watched.report(step, numbers)

    def close(self) -> None:
        """Nothing is open."""
