"""The configuration of a training run and its command line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trainer.common import command_line
from trainer.common.validation import SettingsError, at_least, file_name
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.compression.config import CompressionConfig
from trainer.pytorch.data.dataset import DataConfig  # noqa: TC001  the command line parser reads the annotations
from trainer.pytorch.data.registry import DATASETS, DEFAULT_DATASET, dataset_named
from trainer.pytorch.distributed import DistributedConfig
from trainer.pytorch.export_config import ExportConfig
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.model_config import ModelConfig  # noqa: TC001  as above
from trainer.pytorch.models.registry import DEFAULT_MODEL, MODELS, model_named
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.precision import PrecisionConfig
from trainer.pytorch.reporting.config import ReportConfig
from trainer.pytorch.reporting.reporter import ReportedRun
from trainer.pytorch.runtime import RuntimeConfig
from trainer.pytorch.task import Task
from trainer.training.folders import RunFolders
from trainer.training.metrics import MetricsConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Config = TypeVar("Config")

MODELS_FOLDER = "models"
_PROGRAM = "trainer.train"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Train a model on one or more processes and publish it as TorchScript."""

    data: DataConfig
    output_dir: Path
    """Folder for everything that outlives the workers, the same volume for all of them."""
    work_dir: Path = Path(tempfile.gettempdir()) / "athanor"
    """Scratch folder of this worker: heartbeat files."""
    log_dir: Path | None = None
    """Folder of the event logs, one file per rank, of TensorBoard's files and of the profiler's traces; without it
    <output_dir>/<run_name>/logs."""
    run_name: str = "default"
    """Name of this training. Started again under the same name it resumes, or ends at once if it is finished."""
    epochs: int = 20
    """Times that training goes through the data."""
    max_steps: int | None = None
    """Steps of the run; it goes through the data as often as they need, and `epochs` does not count."""
    log_interval_steps: int = 10
    """Write the numbers of a step to the event log after every so many steps."""
    evaluation_interval_steps: int | None = None
    """Evaluate after every so many steps. None: after each time through the data. The end of the run is always
    evaluated."""
    init_weights: Path | None = None
    """Weights with which the run begins, as safetensors (`trainer.export_weights` writes such a file) or a state dict
    of torch.save. A run that resumes has its own and does not read them."""
    init_weights_strict: bool = True
    """Whether that file must have each weight of the model, and no other; else the rest begins as without the file."""
    model: ModelConfig = field(default_factory=DigitsCnnConfig)
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    blocks: BlocksConfig = field(default_factory=BlocksConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    compression: CompressionConfig = field(default_factory=CompressionConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    report: ReportConfig = field(default_factory=ReportConfig)

    def __post_init__(self) -> None:
        file_name("run_name", self.run_name)
        if self.run_name == MODELS_FOLDER:
            raise ValueError(f"run_name={self.run_name!r}: is the folder of the model repository. Fix: another name")
        at_least("epochs", self.epochs, 1)
        if self.max_steps is not None:
            at_least("max_steps", self.max_steps, 1)
        at_least("log_interval_steps", self.log_interval_steps, 1)
        self._check_task()
        self._check_evaluation()
        self._check_publication()

    def _check_task(self) -> None:
        model, data = self.model, self.data
        if model.task is data.task:
            return
        models = " or ".join(name for name, kind in MODELS.items() if kind.task is data.task)
        datasets = " or ".join(name for name, kind in DATASETS.items() if kind.task is model.task)
        limit = f"is for {model.task.value}, dataset={data.dataset} for {data.task.value}"
        raise ValueError(f"model={model.model}: {limit}. Fix: --model {models}, or --dataset {datasets}")

    def _check_evaluation(self) -> None:
        if self.evaluation_interval_steps is not None:
            at_least("evaluation_interval_steps", self.evaluation_interval_steps, 1)
        best_by, task = self.checkpoint.keep_best, self.data.task
        if best_by not in ("off", *task.figures):
            fix = f"Fix: --keep_best {' or '.join(task.figures)}"
            raise ValueError(f"keep_best={best_by}: is not a figure of {task.value}. {fix}")

    def _check_publication(self) -> None:
        """Refuse what could not be published after hours of training."""
        data, variants = self.data, self.compression.variants
        if variants and not data.in_memory:
            able = " or ".join(name for name, kind in DATASETS.items() if kind.in_memory)
            limit = f"are built from samples in memory, which dataset={data.dataset} does not hold"
            fix = f"Fix: leave them out, or --dataset {able}; trainer.export can make them from a checkpoint later"
            raise ValueError(f"variants={' '.join(variants)}: {limit}. {fix}")
        is_classifier = data.task is Task.CLASSIFICATION
        if is_classifier and data.dataset != DEFAULT_DATASET and self.export.model_name == ExportConfig().model_name:
            limit = f"is the model of another data set than dataset={data.dataset}"
            raise ValueError(f"model_name={self.export.model_name!r}: {limit}. Fix: --model_name with another name")

    def total_steps(self, steps_per_epoch: int) -> int:
        """Return the steps of the run."""
        return self.max_steps or self.epochs * steps_per_epoch

    @property
    def folders(self) -> RunFolders:
        """Where this run writes."""
        run = self.output_dir / self.run_name
        return RunFolders(
            run=run, models=self.output_dir / MODELS_FOLDER, logs=self.log_dir or run / "logs", work=self.work_dir
        )

    def without_effect(self, total_steps: int, world_size: int) -> list[str]:
        """Say which settings do not do what they are for in a run of so many steps and ranks, and the fix of each."""
        messages = [
            *self.parallel.without_effect(),
            *self.optimizer.without_effect(total_steps),
            *self.checkpoint.without_effect(total_steps),
            *self.report.stragglers.without_effect(total_steps),
            *self.report.profile.without_effect(world_size),
        ]
        interval = self.log_interval_steps
        if interval > total_steps and interval != TrainConfig.log_interval_steps:
            limit = f"the run has {total_steps} steps"
            messages.append(
                f"log_interval_steps={interval}: {limit}: only the last is logged. Fix: at most {total_steps}"
            )
        every = self.evaluation_interval_steps
        if every is not None and every > total_steps:
            limit = f"the run has {total_steps} steps"
            fix = f"Fix: at most {total_steps}, or leave it out"
            messages.append(f"evaluation_interval_steps={every}: {limit}: only the last is evaluated. {fix}")
        return messages

    def recipe(self) -> Recipe:
        """The recipe by which the model is built for a layout."""
        return Recipe(
            model=self.model,
            parallel=self.parallel,
            precision=self.precision,
            blocks=self.blocks,
            seed=self.runtime.seed,
        )

    def reported_run(self) -> ReportedRun:
        """The run as its reports describe it."""
        return ReportedRun(
            name=self.run_name,
            logs=self.folders.logs,
            metrics=self.metrics,
            log_interval_steps=self.log_interval_steps,
            model=self.model,
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings that decide the course of the loss, as JSON values: a resumed run must have the same.

        Degrees of parallelism and kernels change it by rounding errors alone, so a run may resume with others.
        """
        model, optimizer = dataclasses.asdict(self.model), dataclasses.asdict(self.optimizer)
        data = self.data.settings()
        if self.model.model == DEFAULT_MODEL:
            # checkpoints from the time when there was one model do not name it
            del model["model"]
        if self.data.dataset == DEFAULT_DATASET:
            # nor those from the time when there was one data set
            del data["dataset"]
        del optimizer["optimizer_kernels"]
        settings = {
            **data,
            **({"epochs": self.epochs} if self.max_steps is None else {"max_steps": self.max_steps}),
            "seed": self.runtime.seed,
            **model,
            **optimizer,
            **({"sync_batch_norm": True} if self.parallel.sync_batch_norm else {}),
            **self.precision.settings(),
        }
        # as they are read from a checkpoint: a model's tuple is a list there, and its path a text
        return json.loads(json.dumps(settings, default=str))


def parse(arguments: Sequence[str] | None = None) -> TrainConfig:
    """Read the command line; see `command_line.parse`."""
    words = sys.argv[1:] if arguments is None else arguments
    kind = with_dataset(with_model(TrainConfig, words, _PROGRAM), words, _PROGRAM)
    return command_line.parse(kind, _PROGRAM, words)


def with_dataset(kind: type[Config], words: Sequence[str], program: str) -> type[Config]:
    """Return `kind` with a field `data` that takes the arguments of the data set that a command line names.

    Args:
        kind: A configuration with a field `data`.
        words: The command line.
        program: The module that is run.

    Raises:
        SystemExit: 2 if there is no data set of that name, or it cannot be used.
    """
    _, dataset = _named("dataset", DEFAULT_DATASET, dataset_named, words, program)
    return _narrowed(kind, ("data", dataset))


def with_model(kind: type[Config], words: Sequence[str], program: str) -> type[Config]:
    """Return `kind` with a field `model` that takes the arguments of the model that a command line names.

    So each model has only its own arguments, and `--help` explains those of the named one.

    Args:
        kind: A configuration with a field `model`.
        words: The command line.
        program: The module that is run.

    Raises:
        SystemExit: 2 if there is no model of that name, or it cannot be used.
    """
    name, model = _named("model", DEFAULT_MODEL, model_named, words, program)
    default: Any = field(default_factory=partial(model, model=name))
    return _narrowed(kind, ("model", model, default))


def _named(
    option: str, default: str, find: Callable[[str], type[Config]], words: Sequence[str], program: str
) -> tuple[str, type[Config]]:
    """Return what a command line says for one option, whatever else it says, and what that stands for."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", add_help=False, allow_abbrev=False)
    parser.add_argument(f"--{option}", default=default, dest="named", metavar="NAME")
    name = str(parser.parse_known_args(words)[0].named)
    try:
        return name, find(name)
    except SettingsError as error:
        parser.error(str(error))


def _narrowed(kind: type[Config], replaced: tuple[str, type] | tuple[str, type, Any]) -> type[Config]:
    narrowed = dataclasses.make_dataclass(kind.__name__, [replaced], bases=(kind,), frozen=True, kw_only=True)
    narrowed.__doc__ = kind.__doc__
    return narrowed
