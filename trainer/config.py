"""The configuration of a training run and its command line."""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from trainer import digits
from trainer.checkpoint import CheckpointConfig
from trainer.data import DataConfig  # noqa: TC001  the command line parser reads the annotations at run time
from trainer.distributed import DistributedConfig
from trainer.export import ExportConfig
from trainer.folders import RunFolders
from trainer.metrics import MetricsConfig
from trainer.model import ModelConfig
from trainer.optimizer import OptimizerConfig
from trainer.runtime import RuntimeConfig
from trainer.validation import at_least, file_name

if TYPE_CHECKING:
    from collections.abc import Sequence

MODELS_FOLDER = "models"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Train the handwritten digits on one or more processes and publish the model as TorchScript."""

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
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
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

    def settings(self) -> dict[str, Any]:
        """Return what decides the course of the loss, as JSON values: a resumed run must have the same."""
        return {
            "dataset_sha256": digits.fingerprint(self.data.data_dir),
            "batch_size": self.data.batch_size,
            "epochs": self.epochs,
            "seed": self.runtime.seed,
            **dataclasses.asdict(self.model),
            **dataclasses.asdict(self.optimizer),
        }


def parse(arguments: Sequence[str] | None = None) -> TrainConfig:
    """Read the command line; every field is `--field_name` (or `--field-name`).

    Raises:
        SystemExit: 0 after `--help`, 2 after saying which value is wrong, its limit and the fix.
    """
    return tyro.cli(
        TrainConfig,
        prog="python -m trainer.train",
        args=arguments,
        use_underscores=True,
        config=(tyro.conf.OmitArgPrefixes,),
    )
