"""The configuration of a training run and its command line."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from trainer.common import command_line
from trainer.common.validation import at_least, file_name
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.compression.config import CompressionConfig
from trainer.pytorch.data import DataConfig  # noqa: TC001  the command line parser reads the annotations at run time
from trainer.pytorch.distributed import DistributedConfig
from trainer.pytorch.export_config import ExportConfig
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.model_config import ModelConfig  # noqa: TC001  as above
from trainer.pytorch.models.registry import DEFAULT_MODEL, MODELS
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.precision import PrecisionConfig
from trainer.pytorch.runtime import RuntimeConfig
from trainer.training import digits
from trainer.training.folders import RunFolders
from trainer.training.metrics import MetricsConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Config = TypeVar("Config")

MODELS_FOLDER = "models"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Train a model on one or more processes and publish it as TorchScript."""

    data: DataConfig
    output_dir: Path
    """Folder for everything that outlives the workers, the same volume for all of them."""
    work_dir: Path = Path(tempfile.gettempdir()) / "athanor"
    """Scratch folder of this worker: heartbeat files."""
    log_dir: Path | None = None
    """Folder of the event logs, one file per rank; without it <output_dir>/<run_name>/logs."""
    run_name: str = "default"
    """Name of this training. Started again under the same name it resumes, or ends at once if it is finished."""
    epochs: int = 20
    """Times that training goes through the data."""
    log_interval_steps: int = 10
    """Write the numbers of a step to the event log after every so many steps."""
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

    def __post_init__(self) -> None:
        file_name("run_name", self.run_name)
        if self.run_name == MODELS_FOLDER:
            raise ValueError(f"run_name={self.run_name!r}: is the folder of the model repository. Fix: another name")
        at_least("epochs", self.epochs, 1)
        at_least("log_interval_steps", self.log_interval_steps, 1)

    @property
    def folders(self) -> RunFolders:
        """Where this run writes."""
        run = self.output_dir / self.run_name
        return RunFolders(
            run=run, models=self.output_dir / MODELS_FOLDER, logs=self.log_dir or run / "logs", work=self.work_dir
        )

    def recipe(self) -> Recipe:
        """How the model is built for a layout."""
        return Recipe(
            model=self.model,
            parallel=self.parallel,
            precision=self.precision,
            blocks=self.blocks,
            seed=self.runtime.seed,
        )

    def settings(self) -> dict[str, Any]:
        """Return what decides the course of the loss, as JSON values: a resumed run must have the same.

        Degrees of parallelism and kernels change it by rounding errors alone, so a run may resume with others.
        """
        model, optimizer = dataclasses.asdict(self.model), dataclasses.asdict(self.optimizer)
        if self.model.model == DEFAULT_MODEL:
            # checkpoints from the time when there was one model do not name it
            del model["model"]
        del optimizer["optimizer_kernels"]
        precision = dataclasses.asdict(self.precision) if self.precision != PrecisionConfig() else {}
        return {
            "dataset_sha256": digits.fingerprint(self.data.data_dir),
            "batch_size": self.data.batch_size,
            "epochs": self.epochs,
            "seed": self.runtime.seed,
            **model,
            **optimizer,
            **precision,
        }


def parse(arguments: Sequence[str] | None = None) -> TrainConfig:
    """Read the command line; see `command_line.parse`."""
    words = sys.argv[1:] if arguments is None else arguments
    return command_line.parse(with_model(TrainConfig, words, "trainer.train"), "trainer.train", words)


def with_model(kind: type[Config], words: Sequence[str], program: str) -> type[Config]:
    """Return `kind` with a field `model` that takes the arguments of the model that a command line names.

    So each model has only its own arguments, and `--help` explains those of the named one.

    Args:
        kind: A configuration with a field `model`.
        words: The command line.
        program: The module that is run.

    Raises:
        SystemExit: 2 if there is no model of that name.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}", add_help=False, allow_abbrev=False)
    parser.add_argument("--model", choices=tuple(MODELS), default=DEFAULT_MODEL)
    named, _ = parser.parse_known_args(words)
    model = MODELS[named.model]
    # every model's arguments have defaults, which the type of their base class does not show
    default: Any = field(default_factory=cast("Callable[[], ModelConfig]", model))
    fields: list[tuple[str, type, Any]] = [("model", model, default)]
    narrowed = dataclasses.make_dataclass(kind.__name__, fields, bases=(kind,), frozen=True, kw_only=True)
    narrowed.__doc__ = kind.__doc__
    return narrowed
